"""Dask's workers on one node: spawned by their nannies, and forked from a sealed forkserver."""

from __future__ import annotations

import click

from matrix.engines.dask_node import SEALED_WORDS, TIMEOUT_S, node
from matrix.engines.engine import Engine, Figures, Place, Variant, memory_of

WORKERS = 4
ROUNDS = 5
PRELOAD = {"DASK_PASTURE__PRELOAD": "dask.dataframe,pyarrow.compute,spark_functions"}


def measure(variant: Variant, place: Place) -> Figures:
    sealed = variant == "sealed"
    words, settings = (SEALED_WORDS, PRELOAD) if sealed else ((), {})
    with node(place, WORKERS, words, settings) as running:
        found = running.run_jobs(ROUNDS)
        workers = set(found["pids"])
        if len(workers) != WORKERS:
            raise click.ClickException(f"{len(workers)} workers of {WORKERS}")
        others = set(running.group.members()) - workers
        private, pss = memory_of(workers, others)
        running.group.terminate()
        code = running.group.wait(TIMEOUT_S)
        if code != 0:
            raise running.group.failure(f"the node ended with {code}")
    return Figures(private, pss, running.start_s, {"round of jobs, s": found["round_s"]})


ENGINE = Engine(
    name="dask",
    title="`dask worker --nworkers`",
    rank=21,
    theirs="`dask worker --nworkers 4` (spawned)",
    way_in="`dask worker --nworkers 4 --preload-nanny pasture.servers.dask`, "
    "`DASK_PASTURE__PRELOAD=dask.dataframe,my_job`",
    workers=WORKERS,
    measure=measure,
    packages="dask",
    guide="clusters.md",
    note="One node on loopback. Six rounds of plain functions and data frames, with the table of "
    "pyspark's row. PSS includes the nannies' process and the forkserver, not the scheduler.",
)
