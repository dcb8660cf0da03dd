"""Which policy runs when, and what the runs say together.

Pure orchestration: one run is a call of `run_one`, which a test replaces by a function.
Rounds alternate the policies and turn the order around each time, so that what drifts
(page cache, clock speed, a growing database) does not favour one of them.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pasture.display.progress import Finished, Started, Tell
from pasture.display.units import count
from pasture.errors import UsageError
from pasture.sealing.policy import POLICIES
from pasture.trial import responses
from pasture.trial.measurement import PolicyResult, Run, TrialResult
from pasture.trial.plan import TrialPlan, check_plan
from pasture.trial.responses import Answers, Disagreement
from pasture.trial.run import Job, private_a_worker, run_job
from pasture.trial.server import Pause
from pasture.trial.session import guarded
from pasture.trust import private_files
from pasture.warmup.requests import Request, parse_request

_CONFIRMING_REPEATS = 4
_DESCRIBE = (
    "import json, platform, sys; print(json.dumps({"
    "'implementation': platform.python_implementation(), 'version': platform.python_version(), "
    "'executable': sys.executable, 'platform': platform.platform()}))"
)

RunOne = Callable[[Job, Tell, Pause], Run]
Differences = dict[str, tuple[Disagreement, ...]]


def run_trial(
    plan: TrialPlan,
    on_event: Tell = lambda event: None,
    stop: threading.Event | None = None,
    run_one: RunOne = run_job,
) -> TrialResult:
    """Run the same load against each policy of a plan.

    Answers that differ are part of the result, not an error: look at `answers_agree`.

    Args:
        on_event: told what happens, in the calling thread.
        stop: when set, the trial ends all its processes and raises KeyboardInterrupt.

    Raises:
        PastureError: what `check_plan` and a run raise; no process is left.
        KeyboardInterrupt: `stop` was set; no process is left.
    """
    check_plan(plan)
    stopped = stop or threading.Event()

    def pause(seconds: float) -> None:
        if stopped.wait(seconds):
            raise KeyboardInterrupt

    with private_files.temporary_folder("pasture-try-") as directory, guarded(directory):
        trial = _Trial(plan, on_event, pause, run_one, directory)
        runs = trial.run_all()
        expected, differing = trial.compare(runs)
    policies = tuple(
        PolicyResult(p, tuple(run for run in runs if run.policy == p), differing.get(p, ()))
        for p in plan.policies
    )
    return TrialResult(
        plan,
        describe_interpreter(plan.server_python),
        policies,
        responses.comparable_bodies(expected),
        _notes(plan, policies),
    )


@dataclass(frozen=True, slots=True)
class _Trial:
    """What all runs of a trial have in common."""

    plan: TrialPlan
    emit: Tell
    pause: Pause
    run_one: RunOne
    directory: Path

    def run_all(self) -> list[Run]:
        runs: list[Run] = []
        order = schedule(self.plan)
        for number, (round_, policy) in enumerate(order, start=1):
            self.emit(Started(policy, self.plan.requests, f"run {number} of {len(order)}"))
            job = self._job(policy, round_, self.plan.requests, warm_up(self.plan, runs))
            run = self.run_one(job, self.emit, self.pause)
            runs.append(run)
            self.emit(Finished(policy, private_a_worker(run.private_bytes_median)))
        return runs

    def compare(self, runs: list[Run]) -> tuple[Answers, Differences]:
        """What the reference answered, and where each other policy did not.

        A body that the reference gave in one run alone may hold what changes with each
        start; so before a difference counts, the reference runs a second time.
        """
        reference = [run for run in runs if run.policy == self.plan.reference]
        expected = responses.merge(run.answers for run in reference)
        found = _differences(expected, self.plan, runs)
        if found and len(reference) == 1:
            urls = len({d.url for differing in found.values() for d in differing})
            differ = f"answers of {count(urls, 'URL')} differ"
            self.emit(Started(self.plan.reference, None, differ))
            reference.append(self._confirming_run(runs))
            self.emit(Finished(self.plan.reference))
            expected = responses.merge(run.answers for run in reference)
            found = _differences(expected, self.plan, runs)
        return expected, found

    def _confirming_run(self, runs: list[Run]) -> Run:
        plan = self.plan
        enough = _CONFIRMING_REPEATS * max(len(plan.urls), plan.users)
        requests = plan.requests if plan.locustfile else min(plan.requests, enough)
        job = self._job(plan.reference, plan.rounds, requests, warm_up(plan, runs))
        return self.run_one(job, lambda event: None, self.pause)

    def _job(self, policy: str, round_: int, requests: int, warm: tuple[Request, ...]) -> Job:
        name = f"{policy}-{round_ + 1}"
        directory = self.directory / name
        private_files.make_folder(directory)
        return Job(self.plan, policy, round_, requests, warm, directory, self._logs() / name)

    def _logs(self) -> Path:
        logs = self.plan.log_dir or self.directory
        try:
            private_files.make_folder(logs)
        except OSError as error:
            raise UsageError(f"cannot write logs: {error}", hint="check --log-dir") from None
        return logs.resolve()


def schedule(plan: TrialPlan) -> tuple[tuple[int, str], ...]:
    """Round and policy of each run, in their order.

    Where the warm-up has to be learnt from the load (a locustfile, and no list of its
    own), policies without a warm-up go first in the first round.
    """
    first = list(plan.policies)
    if plan.locustfile is not None and plan.warm is None:
        first.sort(key=lambda policy: POLICIES[policy].warms_up)
    order: list[tuple[int, str]] = []
    for round_ in range(plan.rounds):
        order.extend((round_, policy) for policy in (first if round_ % 2 == 0 else first[::-1]))
    return tuple(order)


def warm_up(plan: TrialPlan, runs: list[Run]) -> tuple[Request, ...]:
    """The requests of a warm-up: the user's, or one for each distinct URL of the load.

    What a locustfile requests is known once a policy without a warm-up was run; only what
    is safe to repeat is taken from it.
    """
    if plan.warm is not None:
        return plan.warm
    if plan.locustfile is None:
        return tuple(dict.fromkeys(plan.urls))
    cold = (run for run in runs if not POLICIES[run.policy].warms_up)
    seen = dict.fromkeys(parse_request(path) for run in cold for path in run.paths)
    return tuple(request for request in seen if request.method in ("GET", "HEAD"))


def describe_interpreter(python: str) -> Mapping[str, str]:
    """Implementation, version, executable and platform of an interpreter.

    Raises:
        UsageError: it cannot be run.
    """
    try:
        answer = subprocess.run(
            [python, "-c", _DESCRIBE], capture_output=True, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"cannot run {python}: {error}", hint="check its path") from None
    described: dict[str, str] = json.loads(answer.stdout)
    return described


def _differences(expected: Answers, plan: TrialPlan, runs: list[Run]) -> Differences:
    """By policy, those without any left out; the reference itself never differs."""
    found: Differences = {}
    for policy in plan.policies:
        given = responses.merge(run.answers for run in runs if run.policy == policy)
        differing = responses.disagreements(expected, given)
        if policy != plan.reference and differing:
            found[policy] = differing
    return found


def _notes(plan: TrialPlan, policies: tuple[PolicyResult, ...]) -> tuple[str, ...]:
    """Sentences about what limits the figures."""
    notes = []
    if plan.locustfile and plan.warm is None and all(POLICIES[p].warms_up for p in plan.policies):
        notes.append(
            "no warm-up: what a locustfile requests is learnt from a policy without one; "
            "add --policy stock, or name requests with --warm"
        )
    for result in policies:
        runs, name = result.runs, result.policy
        if any(run.final.swap_pss_bytes for run in runs):
            notes.append(f"{name}: memory was swapped out, which no figure here counts")
        if any(run.load.failures for run in runs):
            failures = sum(run.load.failures for run in runs)
            notes.append(f"{name}: {failures} requests failed (5xx or no answer)")
        if any(run.load.requests < plan.requests for run in runs):
            notes.append(f"{name}: the load ended before {plan.requests} requests were sent")
        if not all(run.shutdown.by_itself for run in runs):
            notes.append(f"{name}: the server did not end on SIGTERM and was killed")
        if any(len(run.final.workers) < plan.workers for run in runs):
            notes.append(f"{name}: not all workers were alive at the end")
    return tuple(notes)
