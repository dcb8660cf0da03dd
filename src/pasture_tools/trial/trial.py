"""The order of the runs, and the result of all of them.

Pure orchestration: one run is a call of `run_one`, which a test replaces by a function.
Rounds alternate the policies and turn the order around each time, so that what drifts
(page cache, clock speed, a growing database) does not favour one of them.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pasture.errors import (
    AppImportFailed,
    MissingExtra,
    NoPrivilege,
    PastureError,
    PortTaken,
    UsageError,
)
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture.trust import private_files
from pasture_tools.display.progress import Finished, OnEvent, Started
from pasture_tools.display.units import count
from pasture_tools.launch.session import guarded, pausing
from pasture_tools.proc import processor
from pasture_tools.trial import responses
from pasture_tools.trial.caveats import notes_on
from pasture_tools.trial.measurement import Failure, PolicyResult, Run, TrialResult
from pasture_tools.trial.plan import TrialPlan, check_plan
from pasture_tools.trial.responses import Answers, Disagreement
from pasture_tools.trial.run import Job, private_a_worker, run_job
from pasture_tools.trial.server import Pause, require_server

_CONFIRMING_REPEATS = 4
_EVERYONES = (AppImportFailed, MissingExtra, NoPrivilege, PortTaken, UsageError)
"""Errors that do not depend on the policy."""

RunOne = Callable[[Job, OnEvent, Pause], Run]
Differences = dict[str, tuple[Disagreement, ...]]


def run_trial(
    plan: TrialPlan,
    on_event: OnEvent = lambda event: None,
    stop: threading.Event | None = None,
    run_one: RunOne = run_job,
) -> TrialResult:
    """Run the same load against each policy of a plan; raises if a run fails.

    Answers that differ are part of the result, not an error: look at `answers_agree`.

    Args:
        on_event: called with what happens, in the calling thread.
        stop: when set, the trial ends all its processes and raises KeyboardInterrupt.

    Raises:
        PastureError: what `check_plan` and a run raise; no process is left.
        KeyboardInterrupt: `stop` was set; no process is left.
    """
    result = attempt_trial(plan, on_event, stop, run_one)
    if result.interrupted:
        raise KeyboardInterrupt
    if result.failures:
        raise result.failures[0].error
    return result


def attempt_trial(
    plan: TrialPlan,
    on_event: OnEvent = lambda event: None,
    stop: threading.Event | None = None,
    run_one: RunOne = run_job,
) -> TrialResult:
    """Run a trial and keep what was measured when a later run fails.

    A policy that failed is not run again; the rest go on. The result says what failed and whether
    the trial was interrupted.

    Args:
        on_event, stop: as for `run_trial`.

    Raises:
        PastureError: what `check_plan` raises; what a run raises when no run has ended and the
            error does not depend on the policy.
        KeyboardInterrupt: `stop` was set before any run had ended.
    """
    check_plan(plan)
    pause = pausing(stop or threading.Event())
    interpreter = describe_interpreter()
    require_server(plan)
    with private_files.temporary_folder("pasture-try-") as directory, guarded(directory):
        trial = _Trial(plan, on_event, pause, run_one, directory)
        trial.run_all()
        expected, differing = trial.compare()
    runs = sorted(trial.runs, key=lambda run: run.round)
    policies = tuple(
        PolicyResult(p, of_policy, differing.get(p, ()))
        for p in plan.policies
        if (of_policy := tuple(run for run in runs if run.policy == p))
    )
    return TrialResult(
        plan,
        interpreter,
        describe_machine(),
        policies,
        responses.compared_bodies(expected),
        (*notes_on(plan, policies), *trial.notes),
        tuple(trial.failures),
        trial.interrupted,
    )


@dataclass(slots=True)
class _Trial:
    """The plan of a trial, and its runs so far."""

    plan: TrialPlan
    emit: OnEvent
    pause: Pause
    run_one: RunOne
    directory: Path
    runs: list[Run] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def reference(self) -> str:
        """The policy to compare with: the plan's reference, or the first with a run."""
        there = {run.policy for run in self.runs}
        named = (self.plan.reference, *self.plan.policies)
        return next(policy for policy in named if policy in there)

    def run_all(self) -> None:
        """Make all runs. Raises a PastureError if each run failed."""
        order = schedule(self.plan)
        for number, (round_, policy) in enumerate(order, start=1):
            if any(f.policy == policy for f in self.failures):
                continue
            self.emit(Started(policy, self.plan.requests, f"run {number} of {len(order)}"))
            if not self._run(policy, round_):
                return
        if not self.runs:
            raise self.failures[0].error

    def _run(self, policy: str, round_: int) -> bool:
        try:
            run = self._run_job(policy, round_, self.plan.requests, self.emit)
        except KeyboardInterrupt:
            if not self.runs:
                raise
            self.interrupted = True
            return False
        except PastureError as error:
            is_everyones = policy == self.plan.reference or isinstance(error, _EVERYONES)
            if not self.runs and is_everyones:
                raise
            self.failures.append(Failure(policy, round_, error))
            self.emit(Finished(policy, f"failed: {error.message}"))
            return True
        self.runs.append(run)
        self.emit(Finished(policy, private_a_worker(run.private_bytes_median)))
        return True

    def _run_job(self, policy: str, round_: int, requests: int, emit: OnEvent) -> Run:
        try:
            return self.run_one(self._job(policy, round_, requests), emit, self.pause)
        except OSError as error:  # as when the disk is full: earlier runs are kept
            raise UsageError(
                f"the files of a run cannot be written or read: {error}",
                hint="set TMPDIR to a folder of yours with free space",
            ) from error

    def compare(self) -> tuple[Answers, Differences]:
        """Compare the answers of each policy with the reference's.

        A body that the reference gave in one run alone may hold what changes with each
        start; so before a difference counts, the reference runs a second time.
        """
        reference = [run for run in self.runs if run.policy == self.reference]
        expected = responses.merge(run.answers for run in reference)
        found = self._differences(expected)
        if found and len(reference) == 1 and not self.interrupted:
            urls = len({d.url for differing in found.values() for d in differing})
            differ = f"answers of {count(urls, 'URL')} differ"
            self.emit(Started(self.reference, None, f"again, since {differ}"))
            reference.extend(self._confirming_run())
            expected = responses.merge(run.answers for run in reference)
            found = self._differences(expected)
            self.emit(
                Finished(self.reference, "" if found else "its own answers differ from run to run")
            )
        if found and len(reference) == 1:
            self.notes.append(
                f"{self.reference} did not run again, so a body that changes with each start may "
                "count as different"
            )
        return expected, found

    def _confirming_run(self) -> list[Run]:
        plan = self.plan
        enough = _CONFIRMING_REPEATS * max(len(plan.urls), plan.users)
        requests = min(plan.requests, enough)
        try:
            return [self._run_job(self.reference, plan.rounds, requests, lambda event: None)]
        except KeyboardInterrupt:
            self.interrupted = True
        except PastureError as error:
            self.failures.append(Failure(self.reference, plan.rounds, error))
        return []

    def _differences(self, expected: Answers) -> Differences:
        """Differences by policy; policies without any and the reference are left out."""
        found: Differences = {}
        for policy in self.plan.policies:
            given = responses.merge(run.answers for run in self.runs if run.policy == policy)
            differing = responses.disagreements(expected, given)
            if policy != self.reference and differing:
                found[policy] = differing
        return found

    def _job(self, policy: str, round_: int, requests: int) -> Job:
        name = f"{policy}-{round_ + 1}"
        directory = self.directory / name
        private_files.make_folder(directory)
        logs = self.plan.log_dir or self.directory
        try:
            private_files.make_folder(logs)
        except OSError as error:
            raise UsageError(f"cannot write logs: {error}", hint="check --log-dir") from None
        return Job(self.plan, policy, round_, requests, directory, logs.resolve() / name)


def schedule(plan: TrialPlan) -> tuple[tuple[int, str], ...]:
    """Round and policy of each run, in their order; policies that the server lacks are left out."""
    first = plan.possible
    order: list[tuple[int, str]] = []
    for round_ in range(plan.rounds):
        order.extend((round_, policy) for policy in (first if round_ % 2 == 0 else first[::-1]))
    return tuple(order)


def describe_machine() -> Mapping[str, Any]:
    """Architecture, processor, number of processors for this process, and bytes of an OS page."""
    return {
        "architecture": os.uname().machine,
        "processor": processor.model() or "unknown",
        "processors": len(os.sched_getaffinity(0)),
        "os_page_bytes": OS_PAGE_BYTES,
    }


def describe_interpreter() -> Mapping[str, str]:
    """Implementation, version, executable and platform of the interpreter that runs servers."""
    return {
        "implementation": platform.python_implementation(),
        "version": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
    }
