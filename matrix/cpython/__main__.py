"""Compares CPython's own tests in a sealed process with those in a plain one.

    python matrix/cpython 3.13 3.14 [--debug-build] [--warm] [--module NAME]...

Each module is run twice (module_program.py), in processes of its own. A test that fails
in the sealed run alone must be in expected.toml; else the exit status is 1. A failure
that a second sealed run does not show is reported as unsteady, but a crash never is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from expected import Expected, expected_for, load_changes
from outcomes import FAILED, Comparison, differences
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table
from targets import Target, find_target, run_module

MODULES = (
    "test_list test_dict test_set test_tuple test_str test_bytes test_generators test_class "
    "test_descr test_functools test_itertools test_weakref test_collections test_copy "
    "test_pickle test_json test_re test_datetime test_decimal test_contextlib test_io "
    "test_threading test_coroutines test_dataclasses test_enum test_typing test_sqlite3 "
    "test_struct test_memoryview test_array test_deque test_ordered_dict test_weakset "
    "test_finalization test_gc test_code test_frame test_compile test_ast test_opcache "
    "test_asyncio"
).split()
DEBUG_MODULES = (
    "test_list test_dict test_tuple test_str test_descr test_functools test_weakref test_gc "
    "test_finalization test_code test_opcache test_generators"
).split()


def compare(target: Target, module: str, expected: Expected) -> Comparison:
    plain, sealed = (run_module(target, module, kind) for kind in ("plain", "sealed"))
    found = list(differences(plain, sealed))
    doubtful = expected.unexpected(found)
    if not doubtful or any(d.sealed.outcome == "crashed" for d in doubtful):
        return Comparison(plain, sealed, tuple(found))
    again = {d.test for d in differences(plain, run_module(target, module, "sealed-again"))}
    unsteady = [d for d in doubtful if d.test not in again]
    steady = [d for d in found if d not in unsteady]
    return Comparison(plain, sealed, tuple(steady), tuple(unsteady))


def compare_all(
    target: Target, modules: Sequence[str], expected: Expected, jobs: int
) -> list[Comparison]:
    with ThreadPoolExecutor(jobs) as pool:
        pending = pool.map(lambda module: compare(target, module, expected), modules)
        return list(track(pending, f"CPython {target.name}", len(modules), transient=True))


def modules_table(name: str, comparisons: Sequence[Comparison], expected: Expected) -> Table:
    table = Table(title=f"CPython {name}, sealed", box=box.SIMPLE_HEAD)
    table.add_column("module")
    for column in ("tests", "passed", "skipped", "as plain", "documented", "unsteady", "new", "s"):
        table.add_column(column, justify="right")
    rows = [row_of(each, expected) for each in comparisons]
    for each, row in zip(comparisons, rows, strict=True):
        table.add_row(each.sealed.module, *(f"{number:.0f}" for number in row))
    totals = [sum(column) for column in zip(*rows, strict=True)]
    table.add_section()
    table.add_row("all", *(f"{total:.0f}" for total in totals), style="bold")
    return table


def row_of(each: Comparison, expected: Expected) -> list[float]:
    sealed, new = each.sealed, expected.unexpected(each.found)
    counts = [len(sealed.outcomes), sealed.count("passed"), sealed.count("skipped")]
    counts += [each.failed_in_both, len(each.found) - len(new), len(each.unsteady), len(new)]
    return [*counts, each.plain.seconds + sealed.seconds]


def show(
    console: Console, name: str, comparisons: Sequence[Comparison], expected: Expected
) -> bool:
    """Print one interpreter's figures. Returns whether every difference is documented."""
    console.print(modules_table(name, comparisons, expected))
    for each in comparisons:
        for difference in each.unsteady:
            console.print(f"unsteady: {difference.test}", style="yellow")
    new = [d for each in comparisons for d in expected.unexpected(each.found)]
    for difference in new:
        console.print(f"{difference.module}: {difference.test}", style="bold red")
        console.print(f"  {difference.plain}, sealed {difference.sealed.outcome}")
        console.print(escape(difference.sealed.detail), highlight=False)
        if difference.sealed.outcome == "crashed":
            console.print(f"  output: build/cpython-tests/{name}/{difference.module}.sealed.log")
    found = [d for each in comparisons for d in each.found]
    ran = [test for each in comparisons for test in each.sealed.outcomes]
    old = expected.outdated(found, ran)
    for test in old:
        console.print(f"listed, but did not differ: {test}", style="bold red")
    return not new and not old


def as_document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    return {
        each.sealed.module: {
            "tests": len(each.sealed.outcomes),
            "passed": each.sealed.count("passed"),
            "skipped": each.sealed.count("skipped"),
            "failed": each.sealed.count(*FAILED),
            "failed_plain": each.plain.count(*FAILED),
            "found": [asdict(difference) for difference in each.found],
            "unsteady": [asdict(difference) for difference in each.unsteady],
        }
        for each in comparisons
    }


@click.command(help=__doc__)
@click.argument("minors", nargs=-1, required=True, metavar="3.X...")
@click.option("--module", "chosen", multiple=True, help="Instead of the documented list.")
@click.option("--debug-build", is_flag=True, help="Debian's python3.X-dbg, a shorter list.")
@click.option("--warm", is_flag=True, help="Run the tests once in the parent, before the seal.")
@click.option("--jobs", default=2, show_default=True, help="Modules at a time.")
@click.option("--seconds", default=900, show_default=True, help="Time limit of a module.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="All differences.")
def main(
    minors: Sequence[str],
    chosen: Sequence[str],
    debug_build: bool,
    warm: bool,
    jobs: int,
    seconds: int,
    json_file: Path | None,
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 110)
    changes = load_changes()
    document: dict[str, Any] = {}
    fine = True
    for minor in minors:
        target = find_target(minor, debug_build, seconds, warm)
        expected = expected_for(changes, target.name, "sealed")
        modules = chosen or (DEBUG_MODULES if debug_build else MODULES)
        comparisons = compare_all(target, modules, expected, jobs)
        fine &= show(console, target.name, comparisons, expected)
        document[target.name] = as_document(comparisons)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
