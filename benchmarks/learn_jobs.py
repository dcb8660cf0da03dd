"""Jobs that import pandas inside of functions: `python learn_jobs.py pool`, and tasks of Celery."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

JOBS, WORKERS = 24, 2


def summarize(number: int) -> dict[str, float]:
    """A job; its process, time, and private memory after it, bytes."""
    start = time.perf_counter()
    import pandas

    pandas.DataFrame({"a": range(number)}).describe()
    seconds = time.perf_counter() - start
    time.sleep(0.2)  # so that all workers get their share
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    private = sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private"))
    return {"pid": os.getpid(), "seconds": seconds, "private": private}


def pool() -> list[dict[str, float]]:
    """All jobs, by a pool under `pasture.sealed()`."""
    import pasture

    with pasture.sealed() as workers, workers.context.Pool(WORKERS) as processes:
        found: list[dict[str, float]] = processes.map(summarize, [1000] * JOBS, chunksize=1)
        return found


def celery() -> list[dict[str, float]]:
    """All jobs, by a worker of Celery that runs."""
    results = [task.delay(1000) for _ in range(JOBS)]
    return [result.get(timeout=300) for result in results]


if "QUEUE_URL" in os.environ:
    from celery import Celery

    app = Celery("jobs", broker=os.environ["QUEUE_URL"], backend=os.environ["QUEUE_URL"])
    task = app.task(name="summarize")(summarize)

if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
