"""A driver: RDD functions and pandas UDFs on a cluster, again and again, results checked.

    spark_job.py MASTER FOLDER [NAME=VALUE ...]      further settings of Spark

It writes FOLDER/ready.json when all workers have worked, and goes on to exist, workers idle, until
FOLDER/end is there. Meanwhile each FOLDER/again makes it run all jobs once more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spark_functions
from pyspark.sql import SparkSession
from pyspark.sql import functions as columns

ROWS = 40_000
ROUNDS = 2


def session(master: str, settings: list[str]) -> Any:
    builder: Any = SparkSession.builder.master(master).appName("make engines")
    fixed = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent),
    }
    named = dict(line.split("=", 1) for line in settings)
    for name, value in {**fixed, **named}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def wait_together(numbers: Iterator[int]) -> Iterator[int]:
    """Long enough for all slots to be taken, each by a worker of its own."""
    time.sleep(2)
    yield os.getpid()


def collections_out_of_line(numbers: Iterator[int]) -> Iterator[int]:
    """How many full collections of this worker wrote to no survivor; 0 without pasture."""
    time.sleep(1)
    if "pasture.sealing" in sys.modules:
        from pasture import gc

        yield gc.history().collections
    else:
        yield 0


def run_jobs(spark: Any, slots: int) -> None:
    """Each kind of function once; the results are what the driver computes itself.

    Raises:
        AssertionError: they are not.
    """
    expected = [spark_functions.price(n) for n in range(ROWS)]
    numbers = spark.sparkContext.parallelize(range(ROWS), slots)
    groups = numbers.mapPartitions(spark_functions.priced).reduceByKey(lambda a, b: a + b)
    by_group = dict(groups.collect())
    assert abs(sum(by_group.values()) - sum(expected)) < 1e-3, by_group
    frame = spark.range(0, ROWS, 1, slots)
    priced = columns.pandas_udf(spark_functions.price_series, "double")
    total = frame.select(columns.sum(priced("id"))).first()[0]
    assert abs(total - sum(expected)) < 1e-3, total
    arrow = frame.mapInArrow(spark_functions.doubled, "id long")
    assert arrow.agg(columns.sum("id")).first()[0] == ROWS * (ROWS - 1)
    keyed = frame.withColumn("key", frame.id % 20)
    sums = keyed.groupBy("key").applyInPandas(spark_functions.summed, "key long, total double")
    assert abs(sum(row.total for row in sums.collect()) - sum(expected)) < 1e-3


def main(master: str, folder: Path, settings: list[str]) -> None:
    spark = session(master, settings)
    slots = int(spark.conf.get("spark.cores.max"))
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:  # with the driver
        time.sleep(0.1)
    began = time.monotonic()
    waiting = spark.sparkContext.parallelize(range(slots), slots)
    pids = set(waiting.mapPartitions(wait_together).collect())
    run_jobs(spark, slots)
    first_s = time.monotonic() - began
    began = time.monotonic()
    for _ in range(ROUNDS):
        run_jobs(spark, slots)
    rounds_s = time.monotonic() - began
    collections = waiting.mapPartitions(collections_out_of_line).collect()
    ready = {
        "first_s": first_s,
        "round_s": rounds_s / ROUNDS,
        "workers": len(pids),
        "collections": min(collections),
    }
    write(folder / "ready.json", ready)
    while not (folder / "end").exists():
        if (folder / "again").exists():
            (folder / "again").unlink()
            run_jobs(spark, slots)
            write(folder / "done-again", {})
        time.sleep(0.1)
    spark.stop()


def write(path: Path, document: Any) -> None:
    part = path.with_suffix(".new")
    part.write_text(json.dumps(document))
    part.replace(path)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
