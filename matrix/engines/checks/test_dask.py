"""Dask's workers out of a sealed forkserver: results, kills, and what stays as it is."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from matrix.engines.dask_node import REGISTERED, SEALED_WORDS, TIMEOUT_S, node
from matrix.engines.engine import Place
from matrix.engines.environments import python_for
from matrix.engines.rows.dask import PRELOAD

WORKERS = 2
pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


def started(folder: Path, settings: Mapping[str, str], words: Sequence[str] = SEALED_WORDS) -> Any:
    return node(Place(python_for("dask"), folder), WORKERS, words, settings)


def test_a_killed_worker_comes_back_out_of_the_same_forkserver(tmp_path: Path) -> None:
    with started(tmp_path, {**PRELOAD, "PASTURE_PRELOAD": "spark_functions,not_there"}) as running:
        first = running.run_jobs(0)["pids"]
        parents = {psutil.Process(pid).ppid() for pid in first}
        assert len(parents) == 1
        os.kill(first[0], signal.SIGKILL)
        group = running.group
        group.wait_for(
            lambda: group.log.count(REGISTERED) > WORKERS, "no new worker", timeout_s=TIMEOUT_S
        )
        second = running.run_jobs(1)["pids"]
        assert len(second) == WORKERS
        assert {psutil.Process(pid).ppid() for pid in second} == parents
        assert set(first) & set(second) == {first[1]}
        assert group.log.count("pasture: policy seal on ") == 1
        assert "not preloaded: not_there" in group.log
        group.terminate()
        assert group.wait(TIMEOUT_S) == 0


def test_under_the_method_fork_nothing_is_changed_and_a_warning_says_why(tmp_path: Path) -> None:
    method = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "fork"}
    with started(tmp_path, method) as running:
        assert "pasture: not sealed: distributed.worker.multiprocessing-method" in running.group.log
        assert len(running.run_jobs(0)["pids"]) == WORKERS


def test_what_is_preloaded_comes_from_the_variable_or_a_list_or_a_string() -> None:
    program = """
from pasture.servers.dask import preload_list as names
print(names("c", ["a"]), names("", ["a", " b"]), names("", "a, b"), repr(names("", None)))
"""
    said = subprocess.check_output([python_for("dask"), "-c", program], text=True)
    assert said.split() == ["c", "a,b", "a,b", "''"]
