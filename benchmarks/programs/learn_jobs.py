"""Jobs that import pandas inside of functions: `python learn_jobs.py pool`, tasks of Celery, and a
user-defined function of Spark's."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

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


def spark() -> list[dict[str, float]]:
    """All jobs, by a user-defined function; the executor runs in the driver's JVM."""
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import udf

    names: Any = SparkSession.builder.master(f"local[{WORKERS}]")
    names = names.config("spark.python.daemon.module", "pasture.servers.pyspark")
    with names.config("spark.ui.enabled", "false").getOrCreate() as session:
        job = udf(lambda number: json.dumps(summarize(number)), "string")
        rows = session.range(0, JOBS, 1, JOBS)
        found = rows.select(job((rows.id * 0 + 1000).cast("int")).alias("one")).collect()
        return [json.loads(row.one) for row in found]


if "QUEUE_URL" in os.environ:
    from celery import Celery

    app = Celery("jobs", broker=os.environ["QUEUE_URL"], backend=os.environ["QUEUE_URL"])
    task = app.task(name="summarize")(summarize)

if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
