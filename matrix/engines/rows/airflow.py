"""Airflow's LocalExecutor on Python 3.14, two ways of `benchmarks.airflow_executor`."""

from __future__ import annotations

import time

from benchmarks import airflow_executor
from matrix.engines.engine import Engine, Figures, Place, Variant

WORKERS = 8


def measure(variant: Variant, place: Place) -> Figures:
    way = "forkserver" if variant == "theirs" else "sealed"
    began = time.monotonic()
    found = airflow_executor.measure(way, WORKERS, place.python, place.folder)
    return Figures(found.private_bytes, found.all_pss_bytes, time.monotonic() - began)


ENGINE = Engine(
    name="airflow",
    title="Airflow, LocalExecutor",
    rank=30,
    theirs="`airflow scheduler` on Python 3.14",
    way_in="`AIRFLOW__CORE__MP_START_METHOD=forkserver` and `pasture.servers.forkserver` in "
    "`AIRFLOW__CORE__MP_FORKSERVER_PRELOAD`",
    workers=WORKERS,
    measure=measure,
    packages="airflow",
    guide="queues.md#airflow",
    note="The scheduler's executor without the rest of the scheduler; each worker has imported "
    "what its first task does. The start is that of the whole measurement. `make bench-airflow` "
    "compares with fork and Airflow's own freeze, too.",
)
