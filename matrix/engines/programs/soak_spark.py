"""`soak_work` in Spark's Python workers: a job of one task for each number."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_SESSION: list[Any] = []
_THREADS = ThreadPoolExecutor(3)


def session() -> Any:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master(os.environ["QUEUE_URL"]).appName("soak")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "3",
        "spark.task.maxFailures": "8",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.executorEnv.FAULT_STATE": os.environ["FAULT_STATE"],
    }
    if os.environ.get("SOAK_SEALED"):
        settings["spark.python.daemon.module"] = "pasture.servers.pyspark"
        settings["spark.executorEnv.PASTURE_PRELOAD"] = "soak_work"
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def jobs(numbers: Iterator[int]) -> Iterator[int]:
    from soak_work import work

    for number in numbers:
        work(number)
        yield number


def put(number: int) -> None:
    if not _SESSION:
        _SESSION.append(session())
    context = _SESSION[0].sparkContext
    _THREADS.submit(lambda: context.parallelize([number], 1).mapPartitions(jobs).collect())
