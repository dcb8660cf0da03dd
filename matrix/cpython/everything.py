"""Compares all of CPython's own tests under pasture with the same in plain processes.

    python matrix/cpython/everything.py 3.12 3.13 3.14 3.15 [--mode MODE]... [--minutes N]

\b
Modes, each module in a process of its own:
  sealed     sealed when the module is imported; a forked child runs the tests
  middle     sealed and forked between two tests, after a random share of them
  moments    sealed, collected and forked at random moments, inside of tests and between them
  collector  every full collection out of line

What fails there and not in a plain process is run again, both ways, before it counts. It
must then be in expected.toml; else the exit status is 1. A crash never is expected.
Runs are kept in build/cpython, so the command takes up where it was left; runs of an
extension that has changed since are made again.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path

import click

sys.path.append(str(Path(__file__).resolve().parents[2]))  # matrix

from expected import MODES, Change, expected_for, load_changes
from outcomes import ModuleRun
from rich import box
from rich.console import Console
from rich.table import Table
from selection import choose, find_modules, quick_first
from store import Order, Store, digest_of
from targets import REPOSITORY, Target, find_own_tests, install_once, run_program, taken
from verdict import Counts, Pair, Verdict, counts_of, doubtful, judge, total

HOME = REPOSITORY / "build" / "cpython"
RESOURCES = (
    "audio bigmem console cpu curses decimal extralargefile gui largefile network subprocess "
    "tzdata urlfetch walltime"
).split()
DEFAULT_RESOURCES = ("subprocess",)
"""regrtest's own default, but for starting processes: nothing that needs minutes of CPU time."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a run of any module needs, and for how long runs may be made."""

    store: Store
    target: Target
    mode: str
    seed: int
    resources: Sequence[str]
    deadline: float

    def words(self, kind: str, module: str, seed: int) -> list[str]:
        """For module_program.py. `kind` is a mode, "plain", or "plain-" and a mode."""
        words = [word for name in self.resources for word in ("--resource", name)]
        words += ["--sealed"] * (kind in ("sealed", "middle", "moments"))
        if kind.endswith("moments"):
            words += ["--moments", f"{seed} {module}"]
        if kind.endswith("middle"):
            share = random.Random(f"{seed} {module}").uniform(0.1, 0.9)
            words += ["--fork-after", f"{share:.3f}"]
        return words + ["--collector", "installed"] * (kind == "collector")

    def run(self, kind: str, module: str, again: str = "") -> ModuleRun | None:
        """Out of the store, or now; None if there is no time left."""
        # A time limit that is close to what the module needs would make differences.
        limit_s = self.target.seconds * (1 if kind == "plain" else 2)
        # It serves all seeds: a difference is looked at again with the same one both ways.
        is_first_plain = kind.startswith("plain") and not again
        words = self.words(kind, module, 0 if is_first_plain else self.seed)
        order = Order(self.target.name, kind + again, module, words, limit_s)
        kept = self.store.get(order)
        if kept is not None or time.monotonic() > self.deadline:
            return kept
        done = run_program(self.target, module, order.kind, words, limit_s)
        self.store.put(order, done)
        return done

    def compare(self, module: str, changes: Sequence[Change]) -> Verdict | None:
        """None if there was no time to run the module."""
        plain = self.run("plain-moments" if self.mode == "moments" else "plain", module)
        if plain is None:
            return None
        first = Pair(plain, plain)
        if first.comparable:
            under_test = self.run(self.mode, module)
            if under_test is None:
                return None
            first = Pair(plain, under_test)
        expected = expected_for(changes, self.target.name, self.mode)
        second = self.second_pair(module) if doubtful(first, expected) else None
        return judge(first, second, expected)

    def second_pair(self, module: str) -> Pair | None:
        """A module that is disturbed in its middle is held against one that was, too."""
        disturbs = self.mode in ("middle", "moments")
        plain = self.run(f"plain-{self.mode}" if disturbs else "plain", module, "-again")
        under_test = self.run(self.mode, module, "-again")
        return Pair(plain, under_test) if plain and under_test else None


def compare_all(
    bench: Bench, modules: Iterable[str], changes: Sequence[Change], console: Console
) -> Iterator[Verdict]:
    for module in modules:
        started = time.monotonic()
        verdict = bench.compare(module, changes)
        if verdict is None:
            continue
        if time.monotonic() - started > 0.1 or verdict.new:
            show(verdict, bench, console)
        yield verdict


def show(verdict: Verdict, bench: Bench, console: Console) -> None:
    run, counts = verdict.first.under_test, counts_of(verdict)
    words = [verdict.first.not_compared or f"{counts.same} of {counts.tests} tests the same"]
    for number, what in ((counts.explained, "explained"), (counts.unsteady, "unsteady")):
        words += [f"{number} {what}"] * (number > 0)
    words += [f"{len(verdict.new)} NEW"] * bool(verdict.new)
    line = f"{bench.target.name} {bench.mode} {run.module}: {', '.join(words)}, {run.seconds:.0f} s"
    console.print(line, markup=False, highlight=False)
    for each in verdict.new:
        text = f"  {each.test}: {each.plain}, now {each.sealed.outcome}\n{each.sealed.detail}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def summary(rows: Sequence[tuple[str, str, int, float, Counts]]) -> Table:
    """A row an interpreter and mode: name, mode, modules that were not run, hours, counts."""
    table = Table(title="CPython's own tests under pasture", box=box.SIMPLE_HEAD)
    names = [field.name.replace("_", " ") for field in fields(Counts)]
    for column in ("CPython", "mode"):
        table.add_column(column)
    for column in (*names, "not run", "hours"):
        table.add_column(column, justify="right")
    for name, mode, not_run, hours, counts in rows:
        numbers = [getattr(counts, field.name) for field in fields(Counts)]
        words = [f"{number:,}" for number in (*numbers, not_run)]
        table.add_row(name, mode, *words, f"{hours:.2f}")
    table.caption = (
        "crashed, cut short (in a plain process, too): modules; "
        "skipped, not sealed, too long, not run: modules that were not compared; "
        "hours: of processor time, of the runs under pasture"
    )
    return table


def moments_in(verdicts: Iterable[Verdict]) -> str:
    """How often tests were disturbed in runs under pasture; empty if they were not."""
    runs = (verdict.first.under_test for verdict in verdicts)
    counts = sum((Counter(json.loads(r.events.get("moments", "{}"))) for r in runs), Counter[str]())
    return ", ".join(f"{counts[what]:,} of kind {what}" for what in sorted(counts))


@click.command(help=__doc__)
@click.argument("minors", nargs=-1, required=True, metavar="3.X...")
@click.option("--mode", "modes", multiple=True, type=click.Choice(MODES), help="All by default.")
@click.option("--module", "chosen", multiple=True, help="Instead of all: test_list, test_asyncio.")
@click.option("--minutes", type=float, help="Start nothing after that; 0 shows what is kept.")
@click.option("--seconds", default=120, show_default=True, help="Time limit of a plain module.")
@click.option("--seed", default=0, show_default=True, help="Of the modes middle and moments.")
@click.option(
    "--resource", "resources", multiple=True, type=click.Choice(RESOURCES), help="As regrtest's -u."
)
@click.option("--fresh", is_flag=True, help="Forget what is kept of these modules and modes.")
@click.option("--check-build", is_flag=True, help="A verifier walks the heap after each change.")
@click.option("--any-build", is_flag=True, help="Take kept runs of other builds, too.")
def main(
    minors: Sequence[str],
    modes: Sequence[str],
    chosen: Sequence[str],
    minutes: float | None,
    seconds: int,
    seed: int,
    resources: Sequence[str],
    fresh: bool,
    check_build: bool,
    any_build: bool,
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 170)
    store, changes = Store(HOME, digest_of(REPOSITORY), any_build), load_changes()
    targets = [find_own_tests(minor, seconds, HOME, check_build) for minor in minors]
    modules = {each.name: choose(find_modules(each.python), chosen) for each in targets}
    rows, verdicts = [], []
    with ExitStack() as stack:
        if minutes != 0:
            stack.enter_context(taken(HOME))
            prepare(store, targets, modules if fresh else {}, modes or MODES)
        deadline = time.monotonic() + (float("inf") if minutes is None else minutes * 60)
        for mode, target in product(modes or MODES, targets):
            bench = Bench(store, target, mode, seed, resources or DEFAULT_RESOURCES, deadline)
            ordered = quick_first(modules[target.name], store.plain_seconds())
            found = list(compare_all(bench, ordered, changes, console))
            not_run = len(ordered) - len(found)
            hours = sum(verdict.processor_s for verdict in found) / 3600
            rows.append((target.name, mode, not_run, hours, total(map(counts_of, found))))
            verdicts += found
    console.print(summary(rows))
    if moments := moments_in(verdicts):
        console.print(f"Random moments: {moments}", highlight=False)
    sys.exit(any(verdict.new for verdict in verdicts))


def prepare(
    store: Store,
    targets: Iterable[Target],
    forget: Mapping[str, Iterable[str]],
    modes: Iterable[str],
) -> None:
    for target in targets:
        install_once(target, store.digest)
    store.forget(forget, modes)


if __name__ == "__main__":
    main()
