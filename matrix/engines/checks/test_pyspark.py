"""PySpark on a standalone cluster, its daemon sealed: results, kills, failures.

Each driver checks the results of its jobs itself, and fails where they are wrong.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from matrix.engines.engine import Place
from matrix.engines.environments import python_for
from matrix.engines.rows.pyspark import SEALED, SETTINGS, WORKERS
from matrix.engines.spark_cluster import TIMEOUT_S, Cluster, Driver, cluster

ROUNDS = 2  # of the job; a worker collects after each of its tasks
PRELOAD = "spark.executorEnv.PASTURE_PRELOAD"
pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place = Place(python_for("pyspark"), tmp_path_factory.mktemp("spark"))
    with cluster(place) as made:
        yield made


@pytest.fixture
def folder(running: Cluster) -> Path:
    """The driver's, empty of what another one has said."""
    for name in ("ready.json", "end", "again", "done-again"):
        (running.place.folder / name).unlink(missing_ok=True)
    return running.place.folder


def test_jobs_go_on_after_workers_are_killed_and_a_bad_preload_is_reported(
    running: Cluster, folder: Path
) -> None:
    settings = {**SETTINGS, **SEALED, PRELOAD: SEALED[PRELOAD] + ",not_there"}
    with Driver(running, settings) as driver:
        found = driver.wait_until_ready()
        assert found["collections"] >= ROUNDS, "collections after tasks were the built-in ones"
        daemons, workers = running.python_processes()
        assert len(workers) >= WORKERS
        log = running.executor_logs()
        assert log.count("pasture: policy seal on ") == len(daemons)
        assert log.count("not preloaded: not_there") == len(daemons)
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        driver.run_again()
        same, others = running.python_processes()
        assert set(same) == set(daemons)
        assert not set(others) & set(workers)
        assert driver.finish() == 0, driver.log


def test_without_reuse_each_task_has_a_new_worker_and_the_results_are_right(
    running: Cluster, folder: Path
) -> None:
    settings = {
        **SETTINGS,
        **SEALED,
        "spark.python.worker.reuse": "false",
        "spark.python.daemon.killWorkerOnFlushFailure": "false",
    }
    with Driver(running, settings) as driver:
        driver.wait_until_ready()
        daemons, workers = running.python_processes()
        assert daemons
        assert len(workers) < WORKERS, "workers are left although none is used again"
        assert driver.finish() == 0, driver.log


def test_a_strict_daemon_that_cannot_preload_fails_the_task_with_the_reason(
    running: Cluster, folder: Path
) -> None:
    strict = {"spark.executorEnv.PASTURE_STRICT": "1", PRELOAD: "not_there"}
    with Driver(running, {**SETTINGS, **SEALED, **strict}) as driver:
        assert driver.wait(TIMEOUT_S) != 0
        assert "error: not_there cannot be imported" in driver.log
