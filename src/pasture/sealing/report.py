"""The report of a seal: frozen measurements, its one-line and JSON forms, its place in memory."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pasture.interpreter import Interpreter
from pasture.log_lines import Log
from pasture.proc.memory_file import Shown
from pasture.reasons import Hazard, Reason
from pasture.sealing.memory_types import TypeCount
from pasture.sealing.steps import HEAP_STEPS, HeapStep
from pasture.trust import private_files
from pasture.trust.untrusted_text import to_json

_NO_NEWS = (Reason.NOT_STARTED, Reason.NO_REQUESTS)
"""Reasons for a step's absence that are not in the line."""

SHOWN_NAME = "pasture-report"
_shown = Shown(SHOWN_NAME)
"""Memory in which tools find the latest report; a child has its parent's until it is sealed."""

_USUAL = "glibc: "
"""The note on the allocator that most processes have."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step of a policy.

    Attributes:
        name: its name in the policy.
        seconds: wall time; 0.0 if the step did not run.
        counts: what the step counted, by name.
        skipped: why the step was not taken, or does not exist here; None if it ran.
        failed: the error that ended it; None if it ran through.
        why: the code of either; None if it ran through.
        problems: errors that did not stop the step.
        note: text besides the counts, as the name of the allocator.
        hazards: hazards that the step found.
        mortal_types: types of extensions with more than 1,000 objects that stay mortal.
        dead_types: the ten largest types of unreachable objects that earlier seals keep.
    """

    name: str
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    skipped: str | None = None
    failed: str | None = None
    problems: tuple[str, ...] = ()
    note: str | None = None
    hazards: tuple[Hazard, ...] = ()
    why: Reason | None = None
    mortal_types: tuple[TypeCount, ...] = ()
    dead_types: tuple[TypeCount, ...] = ()


@dataclass(frozen=True, slots=True)
class SealReport:
    """The work of `seal()` in this process.

    Attributes:
        interpreter: the interpreter that it ran on.
        policy: name of the policy.
        sealed: every heap step of the policy ran, or does not exist on this interpreter; memory
            sufficed for all.
        reason: why the process is not sealed; None if it is.
        why: the code of that reason.
        threads: names of threads that ran and prevented a full seal.
        round: how many times `seal()` changed this process's heap, this time included.
        steps: one report for each step of the policy, in their order.
    """

    interpreter: Interpreter
    policy: str
    sealed: bool
    reason: str | None
    round: int
    steps: tuple[StepReport, ...]
    why: Reason | None = None
    threads: tuple[str, ...] = ()

    @property
    def objects(self) -> int:
        """Objects made immortal."""
        return self._count("objects", lambda step: step.makes_immortal)

    @property
    def plugged_bytes(self) -> int:
        """Free memory between shared objects that was taken out of use."""
        return self._count("bytes", lambda step: step.holds_plugs)

    @property
    def seconds(self) -> float:
        """Wall time of all steps."""
        return sum(step.seconds for step in self.steps)

    @property
    def hazards(self) -> Counter[Hazard]:
        """Hazards, with the number of times that each was found."""
        return Counter(hazard for step in self.steps for hazard in step.hazards)

    @property
    def mortal_types(self) -> tuple[TypeCount, ...]:
        """Types with more than 1,000 mortal objects, which may hold more than memory."""
        return tuple(one for step in self.steps for one in step.mortal_types)

    @property
    def dead_types(self) -> tuple[TypeCount, ...]:
        """Types of unreachable objects that earlier seals keep; most bytes first."""
        return tuple(one for step in self.steps for one in step.dead_types)

    @property
    def dead_bytes(self) -> int:
        """Bytes of unreachable objects that earlier seals keep: known from the second seal on."""
        return self._count("dead_bytes", lambda step: step.makes_immortal)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the user; equal ones once, with their number."""
        lines = [f"hazard: {hazard}" for hazard in self.hazards.elements()]
        lines += [f"{s.name}: {p}" for s in self.steps if s.name != "survey" for p in s.problems]
        counted = Counter(lines).items()
        return tuple(f"{line} ({n} times)" if n > 1 else line for line, n in counted)

    def step(self, name: str) -> StepReport | None:
        """The report of one step; None if the policy has no such step."""
        return next((step for step in self.steps if step.name == name), None)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values for `json.dumps`."""
        return {
            **asdict(self),
            "interpreter": self.interpreter._asdict(),
            "hazards": [
                {**asdict(hazard), "count": count} for hazard, count in self.hazards.items()
            ],
            "mortal_types": [asdict(one) for one in self.mortal_types],
            "dead_types": [asdict(one) for one in self.dead_types],
            "dead_bytes": self.dead_bytes,
            "objects": self.objects,
            "plugged_bytes": self.plugged_bytes,
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        return "\n".join((self.line, *self.warnings))

    @property
    def line(self) -> str:
        """The report in one line, without the warnings."""
        warm_up = self.step("warm-up")
        warm_up_s = warm_up.seconds if warm_up else 0.0
        what = "sealed" if self.sealed else f"not sealed ({self.reason})"
        if self.sealed and self.objects:
            what += f", {self.objects:,} objects immortal"
        what += f" in {self.seconds - warm_up_s:.2f} s"
        if warm_up_s:
            what += f" after a warm-up of {warm_up_s:.2f} s"
        notes = [f"{s.name} failed: {s.failed}" for s in self.steps if s.failed]
        skipped = [s for s in self.steps if s.skipped and s.why not in _NO_NEWS]
        notes += [f"no {s.name}: {s.skipped}" for s in skipped]
        notes += [
            f"{s.name}: {s.note}" for s in self.steps if s.note and not s.note.startswith(_USUAL)
        ]
        tail = "".join(f"; {note}" for note in notes)
        return f"policy {self.policy} on {self.interpreter}: {what}{tail}"

    def _count(self, name: str, of: Callable[[HeapStep], bool]) -> int:
        chosen = [s for s in self.steps if s.name in HEAP_STEPS and of(HEAP_STEPS[s.name])]
        return sum(step.counts.get(name, 0) for step in chosen)


def show_report(report: SealReport) -> None:
    """Publish this report in place of the one before; without memory no report is found."""
    # Without an indent C code writes it, before CPython 3.13 too: no garbage stays for the workers.
    _shown.show(json.dumps(report.as_dict()))


def write_copy(report: SealReport, path: Path | None, log: Log) -> None:
    """Write the report as JSON to a file for this user only; the log reports a failure."""
    if path is not None:
        try:
            private_files.write(path, to_json(report.as_dict()))
        except OSError as error:
            log(logging.WARNING, f"the report cannot be written: {error}")


def hide_report() -> None:
    """Withdraw the report: the process becomes another program."""
    _shown.hide()


def read_report(pid: int, proc: Path = Path("/proc")) -> Any:
    """The report that a process publishes, as plain values; None if it cannot be read."""
    for content in _shown.read(pid, proc):
        with suppress(ValueError, RecursionError):
            return json.loads(content)
    return None
