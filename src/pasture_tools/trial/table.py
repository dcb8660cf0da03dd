"""The table at the end of `pasture try`, for a terminal.

Owns the columns and their order; figures come from `figures`, sentences from `summary`.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pasture_tools.trial import summary
from pasture_tools.trial.command import best_command, on_reforks
from pasture_tools.trial.figures import LATENCIES, PEAK, PRIVATE, REQUESTS, SHUTDOWN, TOTAL
from pasture_tools.trial.measurement import PolicyResult, TrialResult

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
    width = max(map(len, result.plan.policies))
    for policy, words in summary.beside_figures(result):
        console.print(Text(f"{policy:<{width}} {words}", style="yellow"))
    for line in _lines(result):
        console.print(line)


def _lines(result: TrialResult) -> list[Text]:
    plain = [summary.capacity(result), summary.processor(result), summary.spread(result)]
    plain.append(summary.answers(result))
    return [
        Text(summary.headline(result), style="bold"),
        *(Text(sentence) for sentence in plain if sentence),
        *(Text(f"note: {remark}", style="yellow") for remark in summary.remarks(result)),
        *(Text(f"next: {command}") for command in [best_command(result)] if command),
        *(Text(sentences) for sentences in [on_reforks(result)] if sentences),
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
    return [
        policy.policy,
        PRIVATE.shown(policy),
        TOTAL.shown(policy),
        *summary.saved(reference, policy),
        REQUESTS.shown(policy),
        "/".join(latency.shown(policy) for latency in LATENCIES.values()),
        SHUTDOWN.shown(policy),
        PEAK.shown(policy),
    ]
