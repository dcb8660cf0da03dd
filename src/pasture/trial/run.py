"""One run: boot a server under a policy, load it, sample it, stop it.

The edge of a trial: everything here touches processes, files and the clock, and all of it
is in the `Run` that comes back. Whatever goes wrong, no process is left.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pasture.display.progress import Moved, Tell
from pasture.display.units import megabytes, seconds
from pasture.errors import AppDidNotAnswer, ServerFailed
from pasture.proc.sampler import Sample, Series, sample_tree, sample_until_whole
from pasture.scoreboard.reader import molds_of
from pasture.trial import diagnosis, load, server, shutdown
from pasture.trial.measurement import Run, median_private_bytes
from pasture.trial.plan import TrialPlan, free_port
from pasture.trial.responses import always_failing
from pasture.trial.server import Pause, RunFiles
from pasture.trial.session import Group
from pasture.warmup.requests import Request

_POLL_S = 0.05
_SETTLE_S = 0.5
_LOAD_START_S = 60.0

STOPPING = "stopping"
"""The phase of a run whose load has ended and whose server gets SIGTERM."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one run is to do.

    Attributes:
        requests: number to send; a run that only confirms answers sends fewer than the plan.
        warm: requests of the warm-up, if the policy has one.
        directory: place for files of this run alone; exists and is empty.
        log_prefix: start of the log files' path.
    """

    plan: TrialPlan
    policy: str
    round: int
    requests: int
    warm: tuple[Request, ...]
    directory: Path
    log_prefix: Path


def run_job(job: Job, emit: Tell, pause: Pause) -> Run:
    """Run one policy once.

    Args:
        pause: sleeps for so many seconds; raises to interrupt the run.

    Raises:
        PastureError: one of its subclasses, for everything that a user can mend.
    """
    plan = job.plan
    files = RunFiles(job.directory, Path(f"{job.log_prefix}.server.log"))
    server.write_warm_up(files, job.warm, plan.headers)
    port = plan.port if plan.port is not None else free_port()
    with ExitStack() as stack:
        group = stack.enter_context(
            Group(
                server.server_command(plan, job.policy, port),
                log=files.log,
                env=server.server_environment(plan, job.policy, files),
                cwd=plan.chdir,
            )
        )
        boot_s = server.wait_until_it_answers(plan, group, port, pause)
        emit(Moved(phase=f"starting the load, answers after {seconds(boot_s)}"))
        start = time.monotonic()
        series, result = _load(job, group, port, emit, pause)
        final = _idle_sample(job, group, start, result.figures.requests, pause)
        emit(Moved(phase=STOPPING))
        ended = shutdown.stop_and_measure(group, pause)
    return Run(
        policy=job.policy,
        round=job.round,
        boot_s=boot_s,
        series=(*series, final),
        final=final,
        load=result.figures,
        shutdown=ended,
        answers=result.answers,
        paths=result.paths,
        report=server.read_report(files),
    )


def _load(
    job: Job, group: Group, port: int, emit: Tell, pause: Pause
) -> tuple[tuple[Sample, ...], load.LoadResult]:
    """Send the load and sample the server meanwhile."""
    files = RunFiles(job.directory, Path(f"{job.log_prefix}.load.log"))
    series = Series()
    start = moved = time.monotonic()
    done: int | None = -1
    with load.start_load(job.plan, job.requests, port, files) as generator:
        while True:
            ended = generator.exit_code() is not None
            if ended or load.read_progress(files) != done:
                done, moved = load.read_progress(files), time.monotonic()
                _sample(series, group, moved - start, done or 0)
                emit(Moved(done or 0, private_a_worker(_private(series))))
            _check_server(job, group)
            if ended:
                break
            _check_moving(job, group, time.monotonic() - moved, begun=done is not None)
            pause(_POLL_S)
    return tuple(series.samples), _checked_result(job, group, files)


def _sample(series: Series, group: Group, elapsed_s: float, requests: int) -> None:
    if series.is_due(elapsed_s):
        began = time.monotonic()
        sample = _read(group, elapsed_s, requests)
        if sample is not None:
            series.add(sample, cost_s=time.monotonic() - began)


def _read(group: Group, elapsed_s: float, requests: int) -> Sample | None:
    return sample_tree(group.pid, elapsed_s, requests, molds=molds_of(group.pid))


def private_a_worker(size_bytes: float) -> str:
    """Private memory of the median worker, in words."""
    return f"{megabytes(size_bytes)} private a worker"


def _private(series: Series) -> int:
    return median_private_bytes(series.samples[-1]) if series.samples else 0


def _check_server(job: Job, group: Group) -> None:
    code = group.exit_code()
    if code is not None:
        raise diagnosis.ended_under_load(job.policy, group.log, code)


def _check_moving(job: Job, group: Group, still_s: float, begun: bool) -> None:
    """Fail when nothing moves any more; the load generator itself may take longer to begin."""
    timeout_s = job.plan.server_timeout_s
    if still_s > (timeout_s if begun else max(timeout_s, _LOAD_START_S)):
        raise AppDidNotAnswer(
            f"no request was answered for {still_s:.0f} s under {job.policy}",
            hint="raise --server-timeout if a request may take that long; the server's log "
            "ends with\n" + diagnosis.tail(group.log),
        )


def _checked_result(job: Job, group: Group, files: RunFiles) -> load.LoadResult:
    result = load.read_result(job.plan, files)
    failing = always_failing(result.answers)
    if failing:
        url, found = next(iter(failing.items()))
        raise diagnosis.always_failing(url, found, group.log)
    return result


def _idle_sample(job: Job, group: Group, start: float, requests: int, pause: Pause) -> Sample:
    """Sample once the server has nothing to do any more."""
    pause(_SETTLE_S)

    sample = sample_until_whole(
        lambda: _read(group, time.monotonic() - start, requests), between=lambda: pause(_POLL_S)
    )
    if sample is not None:
        return sample
    raise ServerFailed(
        f"the workers under {job.policy} do not stay alive",
        hint="the server's log ends with\n" + diagnosis.tail(group.log),
    )
