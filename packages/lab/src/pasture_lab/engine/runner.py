"""Runs experiments part by part: what is kept is not run again, what fails becomes a gap.

Invariant: one part that cannot be measured takes nothing else with it. An interrupt leaves
what was finished kept, and no process behind.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import psutil

from pasture.errors import (
    MissingExtra,
    NoPrivilege,
    NotMeasurable,
    PastureError,
    UnsupportedInterpreter,
    UsageError,
)
from pasture.trust import private_files
from pasture_lab.engine.experiment import Bench, Experiment, Options, Part
from pasture_lab.engine.figures import Curve, Measured, under
from pasture_lab.engine.requirements import require_modules
from pasture_lab.engine.rule import Verdict
from pasture_lab.engine.store import Kept, Store
from pasture_lab.engine.verdict import Judged, judge_experiment, judge_rows
from pasture_tools.display.progress import Finished, Moved, OnEvent, Started
from pasture_tools.display.units import count, duration, seconds
from pasture_tools.launch.session import guarded

_OF_THE_MACHINE = (NotMeasurable, MissingExtra, NoPrivilege, UnsupportedInterpreter)
"""Errors that say what this machine lacks, and not that something went wrong."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an experiment.

    Attributes:
        figures: by part and name.
        curves: by part and key.
        names: by part and key: words and their shares.
        gaps: by part: why it brought back nothing.
        failed: those of them that are no fault of the machine.
        notes: sentences about what limits the figures.
        seconds: that its parts took, kept ones included.
    """

    experiment: Experiment
    figures: Mapping[str, float]
    curves: Mapping[str, Curve]
    names: Mapping[str, Mapping[str, float]]
    gaps: Mapping[str, str]
    failed: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    rows: tuple[Judged, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the experiment as a whole."""
        return judge_experiment(self.rows)


@dataclass(frozen=True, slots=True)
class LabResult:
    """All experiments of one call, and what they ran on."""

    options: Options
    machine: Mapping[str, str]
    results: tuple[Result, ...]


@dataclass(slots=True)
class _Gathered:
    """The results of an experiment's parts so far."""

    figures: dict[str, float] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
    names: dict[str, Mapping[str, float]] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, part: str, measured: Measured, took_s: float) -> None:
        self.figures |= under(part, measured.figures)
        self.curves |= under(part, measured.curves)
        self.names |= under(part, measured.names)
        self.notes += [f"{part}: {note}" for note in measured.notes]
        self.seconds += took_s


def run_lab(
    experiments: Sequence[Experiment],
    options: Options,
    store: Store,
    *,
    again: bool = False,
    on_event: OnEvent = lambda event: None,
    stop: threading.Event | None = None,
) -> LabResult:
    """Run what is not kept, and judge all of it.

    Args:
        again: run what is kept, too.
        on_event: called with what happens, in this thread.
        stop: set by another thread or a signal handler to interrupt.

    Raises:
        UsageError: results cannot be kept.
        KeyboardInterrupt: `stop` was set; no process is left.
    """
    stopped = stop or threading.Event()

    def pause(pause_s: float) -> None:
        if stopped.wait(pause_s):
            raise KeyboardInterrupt

    lab = _Lab(options, store, again, on_event, pause)
    planned = [(experiment, experiment.parts(options)) for experiment in experiments]
    everything = lab.plan(planned)
    on_event(everything)
    results = []
    number, total = 0, sum(len(parts) for _, parts in planned)
    for experiment, parts in planned:
        results.append(lab.run(experiment, parts, number, total))
        number += len(parts)
    on_event(Finished(everything.label))
    return LabResult(options, describe_machine(), tuple(results))


@dataclass(slots=True)
class _Lab:
    options: Options
    store: Store
    again: bool
    emit: OnEvent
    pause: Callable[[float], None]
    spent_s: float = 0.0  # of the estimate

    def plan(self, planned: Sequence[tuple[Experiment, Sequence[Part]]]) -> Started:
        """The work ahead, in estimated seconds."""
        pairs = [(e.name, part) for e, parts in planned for part in parts]
        left = [part for name, part in pairs if self._kept(name, part) is None]
        kept = len(pairs) - len(left)
        estimate_s = sum(part.seconds for part in left)
        return Started(
            count(len(pairs), "run") + (f", {kept} of them kept from before" if kept else ""),
            float(estimate_s) or None,
            f"about {duration(estimate_s) if left else 'nothing to run'}",
        )

    def run(self, experiment: Experiment, parts: Sequence[Part], before: int, total: int) -> Result:
        found = _Gathered()
        for number, part in enumerate(parts, start=before + 1):
            label = f"{experiment.name} {part.name}"
            kept = self._kept(experiment.name, part)
            if kept is not None:
                found.add(part.name, kept.measured, kept.seconds)
                self.emit(Finished(label, "kept"))
                continue
            self.emit(Started(label, 1.0))
            self.emit(Moved(0.0, f"{number} of {total}"))
            self.emit(Finished(label, self._run_part(experiment, part, found)))
            self.spent_s += part.seconds
            self.emit(Moved(self.spent_s))
        found.figures |= experiment.derive(found.figures)
        return Result(
            experiment,
            found.figures,
            found.curves,
            found.names,
            found.gaps,
            tuple(found.failed),
            tuple(dict.fromkeys(found.notes)),
            found.seconds,
            judge_rows(
                (*experiment.rows, *experiment.more_rows(self.options)), found.figures, found.gaps
            ),
        )

    def _run_part(self, experiment: Experiment, part: Part, found: _Gathered) -> str:
        """Run and keep a part; what came of it, in words."""
        start = time.monotonic()
        said = ""
        try:
            require_modules(experiment.needs)
            measured = self._measure(experiment, part, found)
            kept = Kept(measured, round(time.monotonic() - start, 2))
            self.store.keep(experiment.name, part, self.options.quick, kept)
            found.add(part.name, measured, kept.seconds)
        except PastureError as error:
            found.gaps[part.name] = describe_gap(error)
            said = f": not measured: {found.gaps[part.name]}"
            if not isinstance(error, _OF_THE_MACHINE):
                found.failed.append(part.name)
        return f"{seconds(time.monotonic() - start)}{said}"

    def _measure(self, experiment: Experiment, part: Part, found: _Gathered) -> Measured:
        logs = self.store.directory / "logs"
        try:
            private_files.make_folder(logs)
        except OSError as error:
            raise UsageError(f"cannot write logs: {error}", hint="check --results") from None
        self.pause(0)
        with private_files.temporary_folder("pasture-lab-") as directory, guarded(directory):
            bench = Bench(
                directory=directory,
                logs=logs.resolve() / f"{experiment.name}.{part.name}",
                figures={**found.figures, **experiment.derive(found.figures)},
                report=lambda done: self.emit(Moved(done)),
                pause=self.pause,
            )
            return part.measure(bench)

    def _kept(self, experiment: str, part: Part) -> Kept | None:
        return None if self.again else self.store.find(experiment, part, self.options.quick)


def describe_gap(error: PastureError) -> str:
    """Why a part brought back nothing, in one line of words and one hint."""
    hint = f": {error.hint.splitlines()[0]}" if error.hint else ""
    return f"{error.message}{hint}"


def describe_machine() -> dict[str, str]:
    """The machine that the figures were measured on."""
    return {
        "pasture": version("pasture"),
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "cores": str(psutil.cpu_count() or 1),
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
    }
