"""RQ's worker, which forks a work horse for each job."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from statistics import mean

import click

from matrix.engines import queue_worker
from matrix.engines.engine import Engine, Figures, Place, Variant, memory_of
from matrix.redis_server import redis_server

JOBS = 60


def command(variant: Variant, python: Path, url: str) -> list[str]:
    """A worker whose parent has imported the jobs in both variants, as RQ advises."""
    policy = ["--policy", "stock"] if variant == "theirs" else []
    run = [str(python), "-m", "pasture", "run", *policy, "--preload", "rq_jobs"]
    return [*run, "rq", "worker", "--quiet", "--url", url]


def measure(variant: Variant, place: Place) -> Figures:
    with redis_server(place.folder) as url:
        began = time.monotonic()
        with queue_worker.start(command(variant, place.python, url), place.folder) as worker:
            queue_worker.put(place.python, "rq_jobs", url, "1")
            start_s = time.monotonic() - began
            found = queue_worker.put_and_time(place.python, "rq_jobs", url, str(JOBS))
            done, rate = found.jobs, found.jobs_a_second
            private, pss = (mean(job[what] for job in done) for what in ("private", "pss"))
            _, parent = memory_of([worker.pid])
            lost = queue_worker.put(place.python, "rq_jobs", url, "1", "kill_itself")
            after = queue_worker.put(place.python, "rq_jobs", url, "1")
            if lost != [{"status": "failed"}] or "pid" not in after[0]:
                raise click.ClickException(f"a killed work horse: {lost}, then {after}")
            worker.send_signal(signal.SIGTERM)
            if worker.wait(queue_worker.TIMEOUT_S) != 0:
                raise worker.failure("it did not end well")
    return Figures(private, pss + parent, start_s, {"jobs a second": rate})


ENGINE = Engine(
    name="rq",
    title="RQ",
    rank=50,
    theirs="`rq worker` in a program that has imported the jobs, as RQ's documentation advises",
    way_in="`pasture run --preload my_jobs rq worker`",
    workers=1,
    measure=measure,
    packages="queues",
    guide="queues.md",
    note="The job of dramatiq's row. The figures are those of the work horse at the end of its "
    "job, the mean of 60 jobs; PSS is that of the work horse and the worker. If a work horse is "
    "killed its job alone fails.",
)
