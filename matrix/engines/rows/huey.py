"""Huey's worker processes, forked from its consumer."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from matrix.engines import queue_worker
from matrix.engines.engine import Engine, Figures, Place, Variant, memory_of
from matrix.redis_server import redis_server

WORKERS = 4


def command(variant: Variant, place: Place) -> list[str]:
    consumer = place.script("huey_consumer")
    run = [consumer] if variant == "theirs" else ["-m", "pasture", "run", "huey_consumer"]
    return [str(place.python), *run, "huey_jobs.huey", "-k", "process", "-w", str(WORKERS)]


def measure(variant: Variant, place: Place) -> Figures:
    with redis_server(place.folder) as url:
        began = time.monotonic()
        with queue_worker.start(command(variant, place), place.folder, QUEUE_URL=url) as group:
            queue_worker.put(place.python, "huey_jobs", url, "1")
            start_s = time.monotonic() - began
            workers, rate = _all_work(place.python, url)
            private, pss = memory_of(workers, others=set(group.members()) - set(workers))
            os.kill(workers[0], signal.SIGKILL)  # it is idle: nothing is lost
            group.wait_for(lambda: "died, restarting" in group.log, "no new worker", timeout_s=60)
            if workers[0] in _all_work(place.python, url)[0]:
                raise group.failure("the killed worker works on")
            group.send_signal(signal.SIGINT)  # its graceful end
            if group.wait(queue_worker.TIMEOUT_S) != 0:
                raise group.failure("it did not end well")
    return Figures(private, pss, start_s, {"jobs a second": rate})


def _all_work(python: Path, url: str) -> tuple[list[int], float]:
    return queue_worker.put_until_all_work(python, "huey_jobs", url, WORKERS)


ENGINE = Engine(
    name="huey",
    title="Huey, processes",
    rank=50,
    theirs="`huey_consumer my_app.huey -k process -w 4`",
    way_in="`pasture run huey_consumer my_app.huey -k process -w 4`",
    workers=WORKERS,
    measure=measure,
    packages="queues",
    guide="queues.md",
    note="The job of dramatiq's row. A process that is killed has a successor out of the sealed "
    "parent.",
)
