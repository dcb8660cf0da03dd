"""What a package's sealed run showed that its plain run did not, and what is to be made of it.

A failure counts as new only if it is the seal's: not documented, not seen in any plain run, and
seen again. Doubtful tests are run again by themselves, both ways; where none fails sealed, all
tests of the package are. A crash is never excused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog import Package
from expected import Change, Expected
from outcomes import Comparison, Difference, ModuleRun, differences

ROUNDS = 3

Run = Callable[[str, Sequence[str]], ModuleRun]
"""Runs the tests once: its kind, and the ids of tests to run alone, or none for all."""


def expected_of(package: Package, changes: Sequence[Change]) -> Expected:
    """What may differ in its tests: expected.toml has them by package, in place of versions."""
    return Expected(changes, package.name, "sealed")


def compare(run: Run, expected: Expected) -> Comparison:
    plain = run("plain", ())
    if not plain.finished:
        return Comparison(plain, plain, ())  # there is nothing to compare with
    sealed = run("sealed", ())
    found = list(differences(plain, sealed))
    doubtful = expected.unexpected(found)
    if not doubtful or any(each.sealed.outcome == "crashed" for each in doubtful):
        return Comparison(plain, sealed, tuple(found))
    unsteady = excused(run, doubtful, plain)
    steady = [each for each in found if each not in unsteady]
    return Comparison(plain, sealed, tuple(steady), tuple(unsteady))


def excused(run: Run, doubtful: Sequence[Difference], plain: ModuleRun) -> list[Difference]:
    """Those that fail without the seal as well, or do not fail again with it."""
    tests = [each.test for each in doubtful]
    rounds = range(ROUNDS)
    plain_again = worse_than(plain, [run(f"plain-again-{n}", tests) for n in rounds], tests)
    sealed_again = worse_than(plain, [run(f"sealed-again-{n}", tests) for n in rounds], tests)
    left = [test for test in tests if test not in plain_again]
    if not sealed_again.issuperset(left):  # alone they pass: in their company, once more
        sealed_again |= worse_than(plain, [run("sealed-whole-again", ())], left)
    return [each for each in doubtful if each.test in plain_again or each.test not in sealed_again]


def worse_than(plain: ModuleRun, runs: Sequence[ModuleRun], tests: Sequence[str]) -> set[str]:
    """Tests of the list that differ from the plain run in at least one of the runs."""
    return {
        test
        for each in runs
        for test in tests
        if test in each.outcomes and each.outcomes[test].outcome != plain.outcomes[test].outcome
    }
