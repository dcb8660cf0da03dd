"""What a module's runs under pasture say, held against its plain runs.

Pure functions over kept runs. A difference counts as new if a second pair of runs shows it
again; a crash counts if it was seen once, unless a plain run crashes, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from expected import Expected
from outcomes import Difference, ModuleRun, differences


@dataclass(frozen=True, slots=True)
class Pair:
    """A module run once without and once with pasture, in the same way otherwise."""

    plain: ModuleRun
    under_test: ModuleRun

    @property
    def comparable(self) -> bool:
        return not self.not_compared

    @property
    def not_compared(self) -> str:
        """Why nothing can be said of the module; empty if something can."""
        if self.plain.too_long:
            return "too long"
        if not self.plain.outcomes and not self.plain.finished:
            return "skipped"
        if "not sealed" in self.under_test.events and "sealed" not in self.under_test.events:
            return "not sealed"
        return ""

    @property
    def found(self) -> list[Difference]:
        return list(differences(self.plain, self.under_test)) if self.comparable else []


@dataclass(frozen=True, slots=True)
class Verdict:
    """One module in one mode on one interpreter.

    Attributes:
        first, second: pairs of runs; the second where the first had something new.
        explained: differences that a documented change explains.
        new: those that nothing explains, seen twice; and crashes.
        unsteady: those that the second pair did not show.
    """

    first: Pair
    second: Pair | None
    explained: Sequence[Difference]
    new: Sequence[Difference]
    unsteady: Sequence[Difference]

    @property
    def processor_s(self) -> float:
        """Of the runs under pasture, whichever build of it made them."""
        pairs = [pair for pair in (self.first, self.second) if pair is not None]
        return sum(p.under_test.processor_s for p in pairs if p.under_test is not p.plain)

    @property
    def crashes(self) -> list[Difference]:
        if self.first.under_test.too_long:
            return []
        return [each for each in self.new if each.sealed.outcome == "crashed"]


def doubtful(pair: Pair, expected: Expected) -> bool:
    """Whether the module has to be run again before anything is said of it."""
    return bool(expected.unexpected(pair.found))


def judge(first: Pair, second: Pair | None, expected: Expected) -> Verdict:
    found = first.found
    unexpected = expected.unexpected(found)
    explained = [each for each in found if each not in unexpected]
    if second is None:
        return Verdict(first, second, explained, unexpected, ())
    bad_anyway = {test for test, each in second.plain.outcomes.items() if each.bad}
    shown_again = {each.test for each in second.found}
    crash_counts = is_killed(first.under_test) and not second.plain.crashed
    new = [
        each
        for each in unexpected
        if each.test in shown_again
        or (crash_counts and each.sealed.outcome == "crashed" and each.test not in bad_anyway)
    ]
    unsteady = [each for each in unexpected if each not in new]
    return Verdict(first, second, explained, new, unsteady)


def is_killed(run: ModuleRun) -> bool:
    """By a signal other than the one sent at its time limit."""
    return not run.too_long and (run.exit_code < 0 or run.exit_code > 128)


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the modules of one interpreter in one mode.

    Attributes:
        modules: compared.
        tests: run in them under pasture; in the mode "middle" those before the seal, too.
        same: passed or skipped as in the plain run, or failed there alone.
        failed_in_both: failed, or not run, in both.
        crashed: modules.
        cut_short: modules whose plain process does not come to its end, either.
    """

    modules: int = 0
    tests: int = 0
    same: int = 0
    failed_in_both: int = 0
    explained: int = 0
    unsteady: int = 0
    new: int = 0
    crashed: int = 0
    cut_short: int = 0
    skipped: int = 0
    not_sealed: int = 0
    too_long: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)))


def counts_of(verdict: Verdict) -> Counts:
    reason = verdict.first.not_compared
    if reason:
        return Counts(**{reason.replace(" ", "_"): 1})
    plain, run = verdict.first.plain, verdict.first.under_test
    in_both = sum(o.bad and plain.outcomes.get(t, o).bad for t, o in run.outcomes.items())
    differing = {d.test for d in (*verdict.explained, *verdict.new, *verdict.unsteady)}
    return Counts(
        modules=1,
        tests=len(run.outcomes),
        same=len(run.outcomes) - in_both - len(differing & set(run.outcomes)),
        failed_in_both=in_both,
        explained=len(verdict.explained),
        unsteady=len(verdict.unsteady),
        new=len(verdict.new) - len(verdict.crashes),
        crashed=bool(verdict.crashes),
        cut_short=not plain.finished,
    )


def total(counts: Iterable[Counts]) -> Counts:
    return sum(counts, Counts())
