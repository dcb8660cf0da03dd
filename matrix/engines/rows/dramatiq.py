"""dramatiq's worker processes: of the forkserver as on 3.14, and forked from a sealed parent."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from matrix.engines import queue_worker
from matrix.engines.engine import Engine, Figures, Place, Variant, memory_of
from matrix.redis_server import redis_server

WORKERS = 4


def command(variant: Variant, python: Path) -> list[str]:
    begin = [] if variant == "theirs" else ["pasture", "run"]
    options = ["--processes", str(WORKERS), "--threads", "1"]
    return [str(python), "-m", *begin, "dramatiq", *options, "dramatiq_jobs"]


def measure(variant: Variant, place: Place) -> Figures:
    with redis_server(place.folder) as url:
        began = time.monotonic()
        started = queue_worker.start(command(variant, place.python), place.folder, QUEUE_URL=url)
        with started as group:
            queue_worker.put(place.python, "dramatiq_jobs", url, "1")
            start_s = time.monotonic() - began
            found = queue_worker.put_until_all_work(place.python, "dramatiq_jobs", url, WORKERS)
            workers, rate = found
            private, pss = memory_of(workers, others=set(group.members()) - set(workers))
            group.send_signal(signal.SIGHUP)  # restarts all of it
            group.wait_for(
                lambda: not set(workers) & set(group.members()),
                "the old workers stay",
                timeout_s=60,
            )
            queue_worker.put(place.python, "dramatiq_jobs", url, "1")
            if variant == "sealed" and group.log.count("policy seal on") != 2:
                raise group.failure("it is not sealed after the reload")
            group.terminate()
            if group.wait(queue_worker.TIMEOUT_S) != 0:
                raise group.failure("it did not end well")
    return Figures(private, pss, start_s, {"jobs a second": rate})


ENGINE = Engine(
    name="dramatiq",
    title="dramatiq",
    rank=50,
    theirs="`dramatiq --processes 4 my_jobs` (on 3.14 from a bare forkserver)",
    way_in="`pasture run dramatiq --processes 4 my_jobs`",
    workers=WORKERS,
    measure=measure,
    packages="queues",
    guide="queues.md",
    note="A job reads 60,000 articles; each process has done at least three. HUP reloads it, and "
    "it is sealed again. A worker process that is killed ends all of dramatiq, with pasture or "
    "without.",
)
