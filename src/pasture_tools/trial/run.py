"""One run: boot a server under a policy, load it, sample it, stop it and measure its end.

The edge of a trial: this module touches processes, files and the clock, and returns all that it
measured in a `Run`. No process outlives a run, also after an error.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasture.errors import AppDidNotAnswer, ServerFailed
from pasture.proc import smaps
from pasture.proc.tree import processor_s
from pasture.scoreboard.reader import read_entries, workers_among
from pasture_tools.display.progress import Moved, OnEvent
from pasture_tools.display.units import megabytes, seconds
from pasture_tools.launch.ports import free_port
from pasture_tools.launch.session import Group, tail
from pasture_tools.proc.sampler import (
    Sample,
    Series,
    read_together,
    sample_tree,
    sample_until_whole,
)
from pasture_tools.trial import diagnosis, load, server
from pasture_tools.trial.caveats import shortfalls
from pasture_tools.trial.load import Progress
from pasture_tools.trial.measurement import Run, Shutdown, median_private_bytes
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.responses import always_failing
from pasture_tools.trial.server import Pause, RunFiles
from pasture_tools.trial.servers.facts import TRIED

_POLL_S = 0.05
_SETTLE_S = 0.5
_LOAD_START_S = 60.0
_WAITED_TIMEOUTS = 2
_MIN_PAUSE_S = 0.005
_END_S = 90.0  # gunicorn gives its workers 30 s, a service manager usually 90 s

STOPPING = "stopping"
"""The phase of a run whose load has ended and whose server gets SIGTERM."""


@dataclass(frozen=True, slots=True)
class Job:
    plan: TrialPlan
    policy: str
    round: int
    requests: int  # number of requests; a run that only confirms answers sends fewer than the plan
    directory: Path  # folder for files of this run; exists and is empty
    log_prefix: Path  # start of the log files' path


def run_job(job: Job, emit: OnEvent, pause: Pause) -> Run:
    """Run one policy once.

    Args:
        pause: sleeps for the given seconds; raises to interrupt the run.

    Raises:
        PastureError: one of its subclasses, for everything that a user can fix.
    """
    plan = job.plan
    files = RunFiles(job.directory, Path(f"{job.log_prefix}.server.log"))
    server.write_warm_up(files, plan)
    port = free_port()
    with Group(
        server.server_command(plan, job.policy, port, files),
        log=files.log,
        env=server.server_environment(plan, job.policy, files),
        cwd=plan.chdir,
    ) as group:
        until_answer_s = server.wait_until_it_answers(
            plan, group, port, pause, policy=job.policy, emit=emit
        )
        warm_up_s = _warm_up_s(server.read_report(files))
        boot_s = max(0.0, until_answer_s - warm_up_s)
        after = f" and a warm-up of {seconds(warm_up_s)}" if warm_up_s else ""
        emit(Moved(phase=f"starting the load, answers after {seconds(boot_s)}{after}"))
        start, busy_before_s = time.monotonic(), processor_s(group.pid)
        series, result = _load(job, group, port, emit, pause)
        busy_s = max(0.0, processor_s(group.pid) - busy_before_s)
        final = _idle_sample(job, group, start, result.figures.requests, pause)
        emit(Moved(phase=STOPPING))
        ended = stop_and_measure(group, pause)
        said = group.log
    report = server.read_report(files)
    return Run(
        policy=job.policy,
        round=job.round,
        boot_s=boot_s,
        series=(*series, final),
        final=final,
        load=result.figures,
        shutdown=ended,
        processor_s=busy_s,
        answers=result.answers,
        paths=result.paths,
        report=report,
        shortfalls=shortfalls(TRIED[job.policy], final, report, said),
    )


def _warm_up_s(report: Mapping[str, Any] | None) -> float:
    steps = (report or {}).get("steps", ())
    return sum(float(step["seconds"]) for step in steps if step.get("name") == "warm-up")


def _load(
    job: Job, group: Group, port: int, emit: OnEvent, pause: Pause
) -> tuple[tuple[Sample, ...], load.LoadResult]:
    """Send the load and sample the server meanwhile."""
    files = RunFiles(job.directory, Path(f"{job.log_prefix}.load.log"))
    series = Series()
    start = answered_at = time.monotonic()
    last: Progress | None = Progress(-1, -1)
    _sample(series, job, group, 0.0, 0)  # the load generator starts in milliseconds
    with load.sending(job.plan, job.requests, port, files) as has_ended:
        while True:
            ended = has_ended()
            progress, now = load.read_progress(files), time.monotonic()
            if ended or progress != last:
                done = 0 if progress is None else progress.done
                if progress is None or last is None or progress.answered != last.answered:
                    answered_at = now
                last = progress
                _sample(series, job, group, now - start, done)
                latest = median_private_bytes(series.samples[-1]) if series.samples else 0
                emit(Moved(done, private_a_worker(latest)))
            _check_server(job, group)
            if ended:
                break
            _check_moving(job, group, now - answered_at, started=progress is not None)
            pause(_POLL_S)
    result = load.read_result(files)
    for url, found in always_failing(result.answers).items():
        raise diagnosis.always_failing(url, found, group.log, job.plan.facts.phrases)
    return tuple(series.samples), result


def _sample(series: Series, job: Job, group: Group, elapsed_s: float, requests: int) -> None:
    if series.is_due(elapsed_s):
        began = time.monotonic()
        sample = _read(job, group, elapsed_s, requests)
        if sample is not None:
            series.add(sample, cost_s=time.monotonic() - began)


def _read(job: Job, group: Group, elapsed_s: float, requests: int) -> Sample | None:
    pids = job.plan.facts.workers_of(job.policy)(group.pid)
    others = set(pids).difference(workers_among(pids, read_entries(group.pid)))
    return sample_tree(group.pid, elapsed_s, requests, workers=pids, others=others)


def private_a_worker(size_bytes: float) -> str:
    """Private memory of the median worker, in words."""
    return f"{megabytes(size_bytes)} private a worker"


def _check_server(job: Job, group: Group) -> None:
    code = group.exit_code()
    if code == 0 and group.members():  # it answered, then its first process ended
        raise diagnosis.went_into_background()
    if code is not None:
        raise diagnosis.ended_under_load(job.policy, group.log, code)


def _check_moving(job: Job, group: Group, still_s: float, started: bool) -> None:
    """Raise when answers have stopped. The load generator may take longer to start.

    It gives up a request after its timeout and sends the next: after twice that time each user has
    waited without an answer.
    """
    timeout_s = _WAITED_TIMEOUTS * job.plan.server_timeout_s
    if still_s > (timeout_s if started else max(timeout_s, _LOAD_START_S)):
        raise AppDidNotAnswer(
            f"no request was answered for {still_s:.0f} s under {job.policy}",
            hint="raise --server-timeout if a request may take that long; the server's log "
            "ends with\n" + tail(group.log),
        )


def _idle_sample(job: Job, group: Group, start: float, requests: int, pause: Pause) -> Sample:
    pause(_SETTLE_S)

    sample = sample_until_whole(
        lambda: _read(job, group, time.monotonic() - start, requests),
        between=lambda: pause(_POLL_S),
    )
    if sample is not None:
        return sample
    raise ServerFailed(
        f"the workers under {job.policy} keep exiting",
        hint="the server's log ends with\n" + tail(group.log),
    )


def stop_and_measure(group: Group, pause: Pause, timeout_s: float = _END_S) -> Shutdown:
    """Send SIGTERM to a master and watch until all processes of its session have ended.

    A worker that finalizes its interpreter writes to almost every object: the peak of total PSS
    shows it. Readings take about half of the time, so that the processes can end meanwhile.
    """
    pids = group.members()
    start_pss_bytes = peak_pss_bytes = _total_pss_bytes(_with_memory(pids)) or 0
    samples = 0
    workers_seconds = None
    start = time.monotonic()
    group.terminate()
    while group.exit_code() is None or group.members():
        began = time.monotonic()
        if began - start > timeout_s:
            group.end()
            break
        left = _with_memory(pids)
        if workers_seconds is None and set(left) <= {group.pid}:
            workers_seconds = began - start
        total = _total_pss_bytes(left)
        if total is not None:
            samples += 1
            peak_pss_bytes = max(peak_pss_bytes, total)
        pause(max(_MIN_PAUSE_S, time.monotonic() - began))
    seconds = time.monotonic() - start
    by_itself = seconds <= timeout_s
    return Shutdown(
        seconds,
        start_pss_bytes,
        peak_pss_bytes,
        samples,
        seconds if workers_seconds is None else workers_seconds,
        by_itself,
    )


def _with_memory(pids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(pid for pid in pids if smaps.has_memory(pid))


def _total_pss_bytes(pids: tuple[int, ...]) -> int | None:
    """The total PSS of some processes; None if one began to end meanwhile."""
    read = read_together(pids)
    return sum(process.memory.pss_bytes for process in read) if read is not None else None
