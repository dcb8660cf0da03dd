"""The table at the end: a row a package, and their sums."""

from __future__ import annotations

from collections.abc import Sequence

from catalog import Package
from comparison import Comparison
from expected import Change, expected_tests, unexpected
from rich import box
from rich.table import Table

COLUMNS = ("tests", "passed", "skipped", "as plain", "documented", "unsteady", "new", "s")


def packages_table(
    comparisons: Sequence[tuple[Package, Comparison]], changes: Sequence[Change]
) -> Table:
    """Numbers of tests; "passed" did in both runs, "as plain" failed in both."""
    table = Table(title="Other people's tests, sealed", box=box.SIMPLE_HEAD)
    for column in ("package", "version", "CPython"):
        table.add_column(column)
    for column in COLUMNS:
        table.add_column(column, justify="right")
    rows = [row_of(package, each, changes) for package, each in comparisons]
    for (package, _), row in zip(comparisons, rows, strict=True):
        numbers = (f"{number:,.0f}" for number in row)
        table.add_row(package.name, package.version, package.python, *numbers)
    totals = [sum(column) for column in zip(*rows, strict=True)]
    table.add_section()
    table.add_row(
        f"{len(rows)} packages", "", "", *(f"{total:,.0f}" for total in totals), style="bold"
    )
    return table


def row_of(package: Package, each: Comparison, changes: Sequence[Change]) -> list[float]:
    new = unexpected(each.found, expected_tests(changes, package.name))
    counts = [len(each.sealed.outcomes), each.passed_in_both, each.sealed.count("skipped")]
    counts += [each.failed_in_both, len(each.found) - len(new), len(each.unsteady), len(new)]
    return [*counts, each.plain.seconds + each.sealed.seconds]
