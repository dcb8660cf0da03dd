"""What became of each test of a module, and how two runs of the module differ.

Pure functions over what recorder.py wrote down. Invariant: every test that the
plain run knows has an outcome in the comparison, whether the sealed run came to it or not.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

FAILED = ("failed", "crashed", "not run")
"""From bad to worse."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""In the ids of subtests; another one in each process."""

_WORST_LAST = ("skipped", "passed", "failed")

PROCESS = "(the process)"
"""Takes the place of a test where the process did not end well after all tests."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one test: "passed", "skipped", or one of `FAILED`, with the traceback or reason."""

    outcome: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.outcome in FAILED


@dataclass(frozen=True, slots=True)
class ModuleRun:
    """One module, run once.

    Attributes:
        module: without the package "test".
        outcomes: of each test by its unittest id.
        finished: the child came to the end of the module.
        exit_code: of the parent, negative for a signal; the child's signals arrive as 128 + n.
        seconds: wall time, starting the interpreter included.
        events: what was written of the process itself, to the last detail given: "skipped",
            "sealed", "not sealed", "finished".
        too_long: it was ended at its time limit.
        processor_s: of its processes, as far as they were waited for.
    """

    module: str
    outcomes: Mapping[str, Outcome]
    finished: bool
    exit_code: int
    seconds: float
    events: Mapping[str, str] = field(default_factory=dict)
    too_long: bool = False
    processor_s: float = 0.0

    @property
    def crashed(self) -> bool:
        return not self.finished or self.exit_code != 0

    @property
    def ending(self) -> str:
        """How the process ended, in words."""
        if self.too_long:
            return "ended at its time limit"
        number = -self.exit_code if self.exit_code < 0 else self.exit_code - 128
        try:
            return signal.Signals(number).name
        except ValueError:
            return f"exit status {self.exit_code}"

    def count(self, *outcomes: str) -> int:
        return sum(1 for outcome in self.outcomes.values() if outcome.outcome in outcomes)


@dataclass(frozen=True, slots=True)
class Difference:
    """A test that did not end in the sealed process as it did in the plain one."""

    module: str
    test: str
    plain: str
    sealed: Outcome


@dataclass(frozen=True, slots=True)
class Comparison:
    """A module or package in both runs. `unsteady` differed, but it was not the seal's doing."""

    plain: ModuleRun
    sealed: ModuleRun
    found: tuple[Difference, ...]
    unsteady: tuple[Difference, ...] = ()

    @property
    def failed_in_both(self) -> int:
        return sum(
            outcome.bad and self.plain.outcomes.get(test, outcome).bad
            for test, outcome in self.sealed.outcomes.items()
        )

    @property
    def passed_in_both(self) -> int:
        plain = self.plain.outcomes
        return sum(
            outcome.outcome == "passed" and test in plain and plain[test].outcome == "passed"
            for test, outcome in self.sealed.outcomes.items()
        )


_STARTED = Outcome("crashed", "it was started and never ended")


def read_outcomes(lines: Iterable[str]) -> tuple[dict[str, Outcome], dict[str, str]]:
    """The worst outcome of each test, and the events of the process with their details."""
    outcomes: dict[str, Outcome] = {}
    events: dict[str, str] = {}
    for line in lines:
        record = json.loads(line)
        test = _ADDRESS.sub("", record["test"])
        outcome = Outcome(record["outcome"], record["detail"])
        if not test:
            events[outcome.outcome] = outcome.detail
        elif outcome.outcome == "started":
            outcomes.setdefault(test, _STARTED)
        elif outcome.outcome == "ended":
            if outcomes.get(test, _STARTED) == _STARTED:  # nothing but skipped subtests
                outcomes[test] = Outcome("passed")
        elif test not in outcomes or _is_worse(outcome, outcomes[test]):
            outcomes[test] = outcome
    return outcomes, events


def _is_worse(new: Outcome, old: Outcome) -> bool:
    if old.outcome == "crashed":  # until now it had only started
        return True
    return _WORST_LAST.index(new.outcome) > _WORST_LAST.index(old.outcome)


def differences(plain: ModuleRun, sealed: ModuleRun) -> Iterator[Difference]:
    """Tests that fail, or are skipped, in the sealed run alone; then its end.

    What a crash kept from running is not listed test by test.
    """
    missed = 0
    for test in {**plain.outcomes, **sealed.outcomes}:
        before = plain.outcomes.get(test, Outcome("not run"))
        after = sealed.outcomes.get(test, Outcome("not run"))
        if before.bad or after.outcome == before.outcome:
            continue
        if after.outcome == "not run" and not sealed.finished:
            missed += 1
        elif after.bad or after.outcome == "skipped":
            yield Difference(sealed.module, test, before.outcome, after)
    if sealed.crashed and not plain.crashed:
        where = "after all tests" if sealed.finished else f"{missed} tests were not run"
        crash = Outcome("crashed", f"{sealed.ending}, {where}")
        yield Difference(sealed.module, PROCESS, "passed", crash)
