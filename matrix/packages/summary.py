"""The table at the end: a row a package, and their sums; for a terminal, and for the docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catalog import Package
from comparison import Comparison, expected_of
from expected import Change
from rich import box
from rich.table import Table

NAMES = ("package", "version", "CPython")
NUMBERS = ("tests", "fork", "passed", "skipped", "as plain", "documented", "unsteady", "new", "s")
"""Tests that were run sealed, that forked meanwhile, that passed in both runs, that were skipped,
that failed in both, that differ and are documented, that differed without the seal being the cause,
that differ; seconds of both runs."""

Results = Sequence[tuple[Package, Comparison]]


def packages_table(results: Results, changes: Sequence[Change]) -> Table:
    table = Table(title="Other people's tests, sealed", box=box.SIMPLE_HEAD)
    for column in NAMES:
        table.add_column(column, no_wrap=True)
    for column in NUMBERS:
        table.add_column(column, justify="right")
    *rows, last = rows_of(results, changes)
    for row in rows:
        table.add_row(*row)
    table.add_section()
    table.add_row(*last, style="bold")
    return table


def markdown(results: Results, changes: Sequence[Change]) -> str:
    head = [[*NAMES, *NUMBERS], ["---"] * len(NAMES) + ["---:"] * len(NUMBERS)]
    lines = [f"| {' | '.join(row)} |" for row in (*head, *rows_of(results, changes))]
    return "\n".join(lines) + "\n"


def rows_of(results: Results, changes: Sequence[Change]) -> Iterator[list[str]]:
    """The cells of each package, then the sums."""
    numbers = [numbers_of(package, each, changes) for package, each in results]
    for (package, _), row in zip(results, numbers, strict=True):
        yield [package.name, package.version, package.python, *map(as_cell, row)]
    totals = [sum(column) for column in zip(*numbers, strict=True)]
    yield [f"{len(numbers)} packages", "", "", *map(as_cell, totals)]


def as_cell(number: float) -> str:
    return f"{number:,.0f}"


def numbers_of(package: Package, each: Comparison, changes: Sequence[Change]) -> list[float]:
    new = expected_of(package, changes).unexpected(each.found)
    forked = int(each.sealed.events.get("forked", 0))
    counts = [len(each.sealed.outcomes), forked, each.passed_in_both, each.sealed.count("skipped")]
    counts += [each.failed_in_both, len(each.found) - len(new), len(each.unsteady), len(new)]
    return [*counts, each.plain.seconds + each.sealed.seconds]
