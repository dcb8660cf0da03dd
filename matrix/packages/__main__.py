"""Compares other people's tests in a sealed process with those in a plain one.

    python matrix/packages [NAME...] [--resume] [--check-build]

The packages are in packages.toml. The tests of each are run twice, in a forked child each
time, once sealed before the fork. A test that fails in the sealed run alone must be in
expected.toml, with the reason; else the exit status is 1. A failure that more runs do not
lay to the seal is reported as unsteady, but a crash never is. The outcome of a package is kept
in build/packages; --resume runs only what is not there yet for this state of pasture.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "cpython"))  # outcomes, expected and targets serve both
sys.path.append(str(HERE.parent.parent))  # matrix.environments

from catalog import Package, load_packages  # noqa: E402
from comparison import Comparison, compare, expected_of  # noqa: E402
from environments import prepare  # noqa: E402
from expected import load_changes  # noqa: E402
from kept import keep, kept  # noqa: E402
from outcomes import FAILED  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.markup import escape  # noqa: E402
from runs import run_tests  # noqa: E402
from summary import markdown, packages_table  # noqa: E402

from matrix.environments import build_digest  # noqa: E402

CHANGES = load_changes(HERE / "expected.toml")


def choose(names: Sequence[str]) -> list[Package]:
    """The packages of those names; all if there are none."""
    packages = load_packages()
    unknown = [name for name in names if name not in packages]
    if unknown:
        raise click.UsageError(f"no such package: {unknown[0]}; there are {', '.join(packages)}")
    return [packages[name] for name in names or packages]


def examine(package: Package, check_build: bool) -> Comparison:
    environment = prepare(package, check_build)
    return compare(partial(run_tests, package, environment), expected_of(package, CHANGES))


def is_void(comparison: Comparison) -> str | None:
    """Why a comparison says nothing; None if it does."""
    plain, sealed = comparison.plain, comparison.sealed
    if not plain.finished or not plain.outcomes:
        return f"the plain run did not come to its end ({plain.ending})"
    if plain.count(*FAILED) > len(plain.outcomes) / 10:
        return "a tenth of its tests fail in the plain run: something that they need is missing"
    if not sealed.outcomes:
        return f"no test was run in a sealed child ({sealed.ending})"
    return None


def show(console: Console, package: Package, comparison: Comparison) -> bool:
    """Print what differs in a package. Returns whether all of it is documented."""
    name, expected = package.name, expected_of(package, CHANGES)
    void = is_void(comparison)
    if void is not None:
        console.print(f"{name}: {void}; build/packages/runs/{name}.*.log", style="bold red")
        return False
    for difference in comparison.unsteady:
        console.print(f"{name}: unsteady: {escape(difference.test)}", style="yellow")
    new = expected.unexpected(comparison.found)
    for difference in new:
        console.print(f"{name}: {escape(difference.test)}", style="bold red")
        console.print(f"  {difference.plain}, sealed {difference.sealed.outcome}")
        console.print(escape(difference.sealed.detail[-2000:]), highlight=False)
    differing = (*comparison.found, *comparison.unsteady)
    old = expected.outdated(differing, comparison.sealed.outcomes)
    for test in old:
        console.print(f"{name}: listed, but did not differ: {escape(test)}", style="bold red")
    return not new and not old


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--resume", is_flag=True, help="Not what was run before, on the same sources.")
@click.option("--check-build", is_flag=True, help="The extension with its verifier.")
@click.option("--markdown", "table", type=click.Path(path_type=Path), help="The table as text.")
def main(names: Sequence[str], resume: bool, check_build: bool, table: Path | None) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120, soft_wrap=True)
    mode = f"{'check-' * check_build}{build_digest()}"
    fine = True
    comparisons: list[tuple[Package, Comparison]] = []
    for package in choose(names):
        comparison = kept(package, mode) if resume else None
        if comparison is None:
            console.print(f"{package.name} {package.version}", style="bold")
            comparison = examine(package, check_build)
            if is_void(comparison) is None:
                keep(package, mode, comparison)
        fine &= show(console, package, comparison)
        comparisons.append((package, comparison))
    console.print(packages_table(comparisons, CHANGES))
    if table is not None:
        table.write_text(markdown(comparisons, CHANGES), encoding="utf-8")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
