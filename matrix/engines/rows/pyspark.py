"""Spark's Python workers: two executors of a standalone cluster, with four slots each."""

from __future__ import annotations

import click

from matrix.engines.engine import Engine, Figures, Place, Variant, memory_of
from matrix.engines.spark_cluster import CORES_A_NODE, NODES, SEALED_DAEMON, Driver, cluster

WORKERS = NODES * CORES_A_NODE
SETTINGS = {
    "spark.executor.cores": str(CORES_A_NODE),
    "spark.executor.memory": "512m",
    "spark.cores.max": str(WORKERS),
}
SEALED = {
    "spark.python.daemon.module": SEALED_DAEMON,
    "spark.executorEnv.PASTURE_PRELOAD": "pandas,pyarrow.compute,spark_functions",
}


def measure(variant: Variant, place: Place) -> Figures:
    settings = {**SETTINGS, **(SEALED if variant == "sealed" else {})}
    with cluster(place) as running, Driver(running, settings) as driver:
        found = driver.wait_until_ready()
        daemons, workers = running.python_processes()
        if len(workers) < WORKERS:
            raise click.ClickException(f"{len(workers)} workers of {WORKERS}")
        private, pss = memory_of(workers, daemons)
        if driver.finish() != 0:
            raise driver.failure("the driver did not end well")
    others = {"workers that Spark keeps": float(len(workers)), "round of jobs, s": found["round_s"]}
    return Figures(private, pss, found["first_s"], others)


ENGINE = Engine(
    name="pyspark",
    title="PySpark",
    rank=20,
    theirs="`pyspark.daemon`",
    way_in="`spark.python.daemon.module=pasture.servers.pyspark`, "
    "`spark.executorEnv.PASTURE_PRELOAD=pandas,pyarrow.compute,my_job`",
    workers=WORKERS,
    measure=measure,
    packages="pyspark",
    private_goal=0.35,
    guide="clusters.md",
    note="A standalone cluster on loopback: a master and two executors with four slots. Each "
    "round runs an RDD function, a pandas UDF, `mapInArrow` and `applyInPandas`, on a table of "
    "20,000 tariffs in the job's own module. The JVMs are left out. The start is that of the "
    "first round, once both executors are there; two seconds of it are a pause of each worker.",
)
