"""docs/results/engines.md: the table of rows that have results, and a section for each engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matrix.engines.engine import VARIANTS, Engine, Figures
from matrix.engines.results import Result
from matrix.page import line, table
from matrix.spread import Spread, number, paired_ratio, spread_of

HEAD = """# Engines: what each needs, as it is and sealed

    make engines                      # all rows; goes on where it stopped
    make engines ARGS="uvicorn dask"  # these rows

The first command writes this page. A row starts the engine twice a round, once as its makers ship
it and once sealed. *Private* is the memory of one worker that it shares with no process, the mean
of all. *PSS* is the sum over the engine's Python processes, with the parent. The start lasts until
all workers serve. Figures are medians of the rounds; ratios, and goals, are formed within a round.
[How a row is added](../../matrix/engines/README.md).

"""

OTHERS = Path(__file__).with_name("others.txt")
"""What is said of engines that have no row."""

COLUMNS = (
    "engine",
    "workers",
    "private, theirs",
    "sealed",
    "ratio",
    "PSS, theirs",
    "sealed",
    "ratio",
    "start, theirs",
    "sealed",
    "ratio",
)

_NOT_MEASURED = "not measured"


def write_page(found: Sequence[tuple[Engine, Result | None]], before: str = "") -> str:
    """The page as Markdown.

    Args:
        found: rows in their order, each with what is kept of it.
        before: the page as it is. What it says of a row of which nothing is kept here stays: it
            was measured elsewhere.
    """
    parts = [_part(engine, result, before) for engine, result in found]
    rows = [table(COLUMNS, ()), *(row for row, _ in parts)]
    sections = "".join(section for _, section in parts)
    return HEAD + "\n".join(rows) + f"\n{sections}\n{OTHERS.read_text()}"


def _part(engine: Engine, result: Result | None, before: str) -> tuple[str, str]:
    """The row of an engine and its section."""
    if result is None or not result.rounds():
        row = next((line for line in before.splitlines() if f"](#{engine.name}) |" in line), "")
        begin = f"\n## {engine.name}\n"
        if row and _NOT_MEASURED not in row and begin in before:
            rest = before.partition(begin)[2]
            return row, begin + rest.partition("\n## ")[0]
    return line(_cells(engine, result)), _section(engine, result)


def _cells(engine: Engine, result: Result | None) -> list[str]:
    link = f"[{engine.title}](#{engine.name})"
    if result is None or not result.rounds():
        return [link, str(engine.workers), _NOT_MEASURED, *[""] * (len(COLUMNS) - 3)]
    cells = [link, str(engine.workers)]
    for field, scale, unit in (
        ("private_bytes", 1e6, " MB"),
        ("pss_bytes", 1e6, " MB"),
        ("start_s", 1.0, " s"),
    ):
        theirs, sealed, ratio = compare(result, field)
        medians = (number(s.median / scale) + unit for s in (theirs, sealed))
        cells += [*medians, number(ratio.median)]
    return cells


def compare(result: Result, field: str) -> tuple[Spread, Spread, Spread]:
    """Theirs, sealed, and the ratio of sealed to theirs, of one field of `Figures`."""
    rounds = result.rounds()
    theirs, sealed = (
        [getattr(one, field) for one in result.starts[variant][:rounds]] for variant in VARIANTS
    )
    return spread_of(theirs), spread_of(sealed), paired_ratio(sealed, theirs)


def _section(engine: Engine, result: Result | None) -> str:
    lines = [
        f"\n## {engine.name}\n",
        f"- theirs: {engine.theirs}",
        f"- sealed{f' ([guide](../{engine.guide}))' if engine.guide else ''}: {engine.way_in}",
    ]
    if result is not None and result.rounds():
        lines += _measured(engine, result)
    if engine.note:
        lines.append(f"\n{engine.note}")
    return "\n".join(lines) + "\n"


def _measured(engine: Engine, result: Result) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    load = spread_of(result.load)
    lines = [
        f"- {versions}; {result.rounds()} rounds, load {load.text()}",
    ]
    for what, field, goal in (
        ("private", "private_bytes", engine.private_goal),
        ("PSS", "pss_bytes", engine.pss_goal),
        ("start", "start_s", engine.start_goal),
    ):
        if goal is not None:
            ratio = compare(result, field)[2]
            verdict = "met" if ratio.median <= goal else "missed"
            lines.append(f"- goal: {what} at most {goal}: {ratio.text()}, {verdict}")
    return lines + _others(result)


def _others(result: Result) -> list[str]:
    def median(figures: Sequence[Figures], name: str) -> str:
        return number(spread_of(one.others[name] for one in figures).median)

    first: Mapping[str, float] = result.starts["theirs"][0].others
    return [
        f"- {name}: theirs {median(result.starts['theirs'], name)}, "
        f"sealed {median(result.starts['sealed'], name)}"
        for name in first
    ]
