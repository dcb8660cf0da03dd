"""Workers of pytest-xdist, as they are and forked by pytest-pasture, on other packages' tests.

Each round runs all, one after the other, in an order that changes, and forms its ratios within
itself. `kept` is a run that an earlier one has collected for; its processor time is not known,
because its workers are no descendants of it. A plug-in of ours in the workers writes when a
worker's first test began, and its private memory after its last one. Processor time is that of all
processes of the run.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich import box
from rich.console import Console
from rich.table import Table

from matrix.environments import REPOSITORY, uv
from matrix.spread import paired_ratio

DJANGO = ("-p", "pytest_django_suite", "-c", "/dev/null", "-o", "python_files=test*.py")
DJANGO_PARTS = ("basic", "queries", "lookup", "aggregation", "expressions", "template_tests")
PARTS = {
    "attrs": ("-k", "test_validators or test_converters or test_filters or test_annotations"),
    "networkx": ("-k", "test_function or test_graph or test_digraph"),
    "pandas": ("pandas/tests/indexes/datetimes/methods", "pandas/tests/indexes/timedeltas"),
    "sqlalchemy": (  # without what needs the examples, or an interpreter to start within 10 s
        *("test/base", "--ignore=test/base/test_examples.py", "-k", "not GreenletImportTests"),
    ),
    "django": (*DJANGO, *(f"tests/{part}" for part in DJANGO_PARTS)),
}
"""By suite, what of it runs: all that `make test-packages` has, or the files that are named."""
VARIANTS = {"xdist": "--no-pasture", "forked": "--pasture", "kept": "--keep"}
PROBE = Path(__file__).parent / "programs" / "pytest_workers_probe.py"
TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a suite.

    Attributes:
        first_test_s: from the start until the last worker began its first test.
        private_bytes: of a worker after its tests, the mean.
        outcomes: by test.
    """

    first_test_s: float
    processor_s: float
    wall_s: float
    private_bytes: float
    outcomes: dict[str, str]
    plain: str


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of a package, and what runs them."""

    python: Path
    root: Path
    words: tuple[str, ...]


def prepare(name: str) -> Suite:
    """The environment that `make test-packages` has for it, with the plug-ins."""
    sys.path.insert(0, str(REPOSITORY / "matrix" / "packages"))
    from catalog import load_packages  # type: ignore[import-not-found,unused-ignore]
    from environments import prepare as make  # type: ignore[import-not-found,unused-ignore]

    package = load_packages()[name]
    environment = make(package, False)
    more = ("pytest", "pytest-xdist>=3.6")
    uv("pip", "install", "--quiet", "--python", environment.python, *more)
    uv(
        *("pip", "install", "--quiet", "--python", environment.python, "--no-deps"),
        *("--reinstall-package", "pytest-pasture", REPOSITORY / "packages" / "pytest-pasture"),
    )
    left_out = [
        f"--deselect={each}" if "::" in each else f"--ignore={environment.root / each}"
        for each in package.left_out
    ]
    own = ["-c", "/dev/null"] if package.source == "wheel" else []
    above = (f"--rootdir={environment.root}", f"--confcutdir={environment.root}")
    part = PARTS.get(name, ())
    tests = () if any("/" in word for word in part) else package.tests
    words = (*above, *own, *tests, *package.arguments, *part, *left_out)
    return Suite(environment.python, environment.root, words)


def run(suite: Suite, variant: str, workers: int, options: Sequence[str], folder: Path) -> Measured:
    """Run a suite once. All runs have one folder, because what is kept knows its name."""
    if variant == "kept":
        execute(suite, variant, workers, (*options, "-k", "no_test_has_this_name"), folder)
    for path in (*folder.glob("note-*"), folder / "junit.xml", folder / "report.json"):
        path.unlink(missing_ok=True)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    execute(suite, variant, workers, options, folder)
    wall_s = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    notes = [json.loads(path.read_text()) for path in folder.glob("note-*")]
    if not (folder / "junit.xml").exists() or len(notes) != workers:
        raise click.ClickException(f"{variant}: {(folder / 'log').read_text()[-2000:]}")
    report = folder / "report.json"
    known = (
        json.loads(report.read_text())
        if report.exists()
        else {"plain": [], "collected_again": None}
    )
    return Measured(
        max(note["first_test"] for note in notes) - start,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        wall_s,
        sum(note["private_bytes"] for note in notes) / len(notes),
        outcomes(folder / "junit.xml"),
        "; ".join([*known["plain"], *filter(None, [known["collected_again"]])]),
    )


def execute(suite: Suite, variant: str, workers: int, options: Sequence[str], folder: Path) -> None:
    """Run pytest to its end."""
    command = [
        *(str(suite.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", PROBE.stem),
        *("-n", str(workers), VARIANTS[variant], f"--junit-xml={folder / 'junit.xml'}"),
        *(f"--pasture-report={folder / 'report.json'}", *suite.words, *options),
    ]
    own = {
        "PYTHONPATH": str(PROBE.parent),
        "XDG_RUNTIME_DIR": str(folder),
    }
    with (folder / "log").open("w") as log:
        subprocess.run(
            command,
            cwd=suite.root,
            env={**os.environ, **own},
            stdout=log,
            stderr=log,
            timeout=TIMEOUT_S,
        )


def outcomes(junit: Path) -> dict[str, str]:
    """By test, as pytest's JUnit file has them."""
    return {
        f"{case.get('classname')}::{case.get('name')}": next(
            (child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed"
        )
        for case in ElementTree.parse(junit).iter("testcase")
    }


def differing(one: Measured, other: Measured) -> list[str]:
    """Tests with another outcome, or in one of both runs alone."""
    names = one.outcomes.keys() | other.outcomes.keys()
    return sorted(name for name in names if one.outcomes.get(name) != other.outcomes.get(name))


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--workers", type=int, multiple=True, default=(2, 8), show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--option", "options", multiple=True, help="Another word for pytest.")
def main(
    names: tuple[str, ...], workers: tuple[int, ...], rounds: int, options: tuple[str, ...]
) -> None:
    console = Console(width=140)
    table = Table(box=box.SIMPLE, title="ratios to xdist: median (lowest to highest) of the rounds")
    for column in (
        "suite",
        "workers",
        "variant",
        "last first test",
        "processor",
        "wall",
        "private",
        "tests",
    ):
        table.add_column(column)
    for name in names or PARTS:
        suite = prepare(name)
        for count in workers:
            with TemporaryDirectory(prefix="pasture-bench-") as folder:
                rows, differ = measure(console, name, suite, count, rounds, options, Path(folder))
                execute(suite, "kept", count, (*options, "--keep-stop"), Path(folder))
            for variant in list(VARIANTS)[1:]:
                table.add_row(
                    name, str(count), variant, *ratios(rows, variant), f"{len(differ)} differ"
                )
            for test in sorted(differ)[:20]:
                console.print(f"  differs: {test}", markup=False)
    console.print(table)


def measure(
    console: Console,
    name: str,
    suite: Suite,
    count: int,
    rounds: int,
    options: Sequence[str],
    folder: Path,
) -> tuple[dict[str, list[Measured]], set[str]]:
    """Runs by variant, and the tests whose outcomes differ."""
    rows: dict[str, list[Measured]] = {variant: [] for variant in VARIANTS}
    differ: set[str] = set()
    for turn in range(rounds):
        for variant in list(VARIANTS)[:: -1 if turn % 2 else 1]:
            rows[variant].append(run(suite, variant, count, options, folder))
            console.print(name, count, variant, describe(rows[variant][-1]))
        for variant in list(VARIANTS)[1:]:
            differ.update(differing(rows["xdist"][-1], rows[variant][-1]))
    return rows, differ


def describe(one: Measured) -> str:
    return (
        f"first test of all {one.first_test_s:.1f} s, processor {one.processor_s:.1f} s, "
        f"wall {one.wall_s:.1f} s, private {one.private_bytes / 1e6:.0f} MB, "
        f"{len(one.outcomes)} tests {one.plain}"
    )


def ratios(rows: dict[str, list[Measured]], variant: str) -> list[str]:
    """A cell for each figure."""
    cells = []
    for figure in ("first_test_s", "processor_s", "wall_s", "private_bytes"):
        ours, xdist = ([getattr(one, figure) for one in rows[v]] for v in (variant, "xdist"))
        is_known = variant == "forked" or figure != "processor_s"
        cells.append(paired_ratio(ours, xdist).text() if is_known else "")
    return cells


if __name__ == "__main__":
    main()
