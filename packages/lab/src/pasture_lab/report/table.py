"""The tables of `pasture lab` for a terminal: what there is, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pasture_lab.engine.experiment import Experiment, Options
from pasture_lab.engine.rule import Verdict
from pasture_lab.engine.runner import LabResult, Result
from pasture_lab.report import words
from pasture_tools.display.units import duration, seconds

_STYLES = {
    Verdict.REPRODUCED: "green",
    Verdict.NOT_REPRODUCED: "red",
    Verdict.NOT_MEASURABLE: "yellow",
}


def print_list(experiments: Iterable[Experiment], console: Console) -> None:
    """Print the experiments, and how long each takes."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading, justify in (
        ("name", "left"), ("what", "left"), ("figures", "right"), ("runs", "right"),
        ("quick", "right"), ("full", "right"), ("source", "left"),
    ):  # fmt: skip
        table.add_column(heading, justify="right" if justify == "right" else "left")
    for experiment in experiments:
        quick, full = (
            sum(part.seconds for part in experiment.parts(Options(quick=q))) for q in (True, False)
        )
        published = sum(bool(row.published) for row in experiment.rows)
        runs = len(experiment.parts(Options()))
        table.add_row(
            experiment.name, experiment.title, str(published), str(runs),
            duration(quick), duration(full), experiment.source,
        )  # fmt: skip
    console.print(table)


def print_result(lab: LabResult, console: Console) -> None:
    """Print each experiment with published and measured figure, and the verdicts."""
    for result in lab.results:
        console.print(_title(result))
        console.print(_rows(result))
        for reason, parts in words.by_reason(result.gaps).items():
            console.print(Text(f"not measured: {', '.join(parts)}: {reason}", style="yellow"))
        for note in result.notes:
            console.print(Text(f"note: {note}", style="yellow"))
        console.print()
    console.print(Text(words.headline(lab), style="bold"))


def _title(result: Result) -> Text:
    text = Text(f"{result.experiment.name}: {result.experiment.title}: ", style="bold")
    text.append(str(result.verdict), style=_STYLES[result.verdict])
    return text.append(f" ({seconds(result.seconds)})", style="not bold dim")


def _rows(result: Result) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("", "published", "measured", "ratio", "verdict"):
        table.add_column(heading, justify="right" if heading == "ratio" else "left")
    for judged in result.rows:
        style = _STYLES[judged.verdict] if judged.verdict else ""
        verdict = Text(str(judged.verdict or ""), style=style)
        table.add_row(
            Text(judged.row.what),
            Text(judged.row.published),
            Text(words.measured(judged, result.figures) or judged.reason),
            words.ratio(judged),
            verdict,
        )
    return table
