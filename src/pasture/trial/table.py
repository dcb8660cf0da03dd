"""The table at the end of `pasture try`, for a terminal.

Owns the columns and their order; figures come from `measurement`, sentences from `summary`.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pasture.display.units import megabytes, milliseconds, percent, seconds
from pasture.trial import summary
from pasture.trial.measurement import PolicyResult, TrialResult, total_pss_saving

_COLUMNS = (
    "\npolicy",
    "private\na worker",
    "total\nPSS",
    "\nsaved",
    "",
    "requests\na second",
    "p50/p95/p99\nms",
    "\nshutdown",
    "PSS\npeak",
)


def print_result(result: TrialResult, console: Console) -> None:
    """Print table, sentences and remarks."""
    console.print(_table(result))
    for line in _lines(result):
        console.print(line)


def _lines(result: TrialResult) -> list[Text]:
    plain = [summary.capacity(result), summary.spread(result)]
    return [
        Text(summary.headline(result), style="bold"),
        *(Text(sentence) for sentence in plain if sentence),
        *(Text(f"note: {remark}", style="yellow") for remark in summary.remarks(result)),
    ]


def _table(result: TrialResult) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for heading in _COLUMNS:
        table.add_column(heading, justify="left" if "policy" in heading else "right")
    winner = summary.best(result)
    for policy in result.policies:
        style = "green" if policy is winner else None
        table.add_row(*_cells(result.reference, policy), style=style)
    return table


def _cells(reference: PolicyResult, policy: PolicyResult) -> list[str]:
    saving = total_pss_saving(reference, policy)
    is_reference = policy is reference
    quantiles = (
        policy.median(lambda run: run.load.p50_ms),
        policy.median(lambda run: run.load.p95_ms),
        policy.median(lambda run: run.load.p99_ms),
    )
    return [
        policy.policy,
        megabytes(policy.median(lambda run: run.private_bytes_median)),
        megabytes(policy.median(lambda run: run.total_pss_bytes)),
        "" if is_reference else megabytes(saving.saved_bytes),
        "" if is_reference else percent(saving.fraction),
        f"{policy.median(lambda run: run.load.requests_per_s):,.0f}",
        "/".join(milliseconds(value) for value in quantiles),
        seconds(policy.median(lambda run: run.shutdown.seconds)),
        f"{policy.median(lambda run: run.shutdown.peak_ratio):.2f}x",
    ]
