"""RQ, dramatiq and Huey under a seal: what is sealed when, what is refused, what a kill loses."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from matrix.engines import queue_worker
from matrix.engines.environments import python_for
from matrix.redis_server import redis_server

SEALED = "policy seal on "
PRELOADED = ("--preload", "rq_jobs")
pytestmark = pytest.mark.timeout(2 * queue_worker.TIMEOUT_S)


python_of_queues = functools.cache(lambda: python_for("queues"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as address:
        yield address


def started(folder: Path, url: str, *words: str, **variables: str) -> Any:
    command = [str(python_of_queues()), "-m", *words]
    return queue_worker.start(command, folder, QUEUE_URL=url, **variables)


def put(client: str, *arguments: str) -> list[dict[str, Any]]:
    return queue_worker.put(python_of_queues(), client, *arguments)


def test_rq_is_sealed_once_and_a_killed_work_horse_fails_its_job_alone(
    tmp_path: Path, url: str
) -> None:
    words = ("pasture", "run", *PRELOADED, "rq", "worker", "--url", url)
    with started(tmp_path, url, *words) as worker:
        assert len({job["pid"] for job in put("rq_jobs", url, "3")}) == 3
        assert put("rq_jobs", url, "1", "kill_itself") == [{"status": "failed"}]
        assert "pid" in put("rq_jobs", url, "1")[0]
        assert worker.log.count(SEALED) == 1
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(queue_worker.TIMEOUT_S) == 0


def test_rqs_pool_is_sealed_in_its_parent_alone(tmp_path: Path, url: str) -> None:
    words = ("pasture", "run", *PRELOADED, "rq", "worker-pool", "--num-workers", "2", "--url", url)
    with started(tmp_path, url, *words) as pool:
        assert len(put("rq_jobs", url, "4")) == 4
        assert pool.log.count(SEALED) == 1
        pool.send_signal(signal.SIGTERM)
        assert pool.wait(queue_worker.TIMEOUT_S) == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("rq", "worker", "--worker-class", "rq.SimpleWorker", "--url", "{url}"), "does not fork"),
        (("dramatiq", "--use-spawn", "dramatiq_jobs"), "--use-spawn"),
        (("huey_consumer", "huey_jobs.huey", "-w", "2"), "'thread'"),
    ],
)
def test_what_forks_nothing_is_refused(
    words: tuple[str, ...], why: str, tmp_path: Path, url: str
) -> None:
    command = [word.format(url=url) for word in words]
    with started(tmp_path, url, "pasture", "run", *command) as program:
        assert program.wait(queue_worker.TIMEOUT_S) == 2
        assert why in program.log and "Traceback" not in program.log


def test_a_worker_of_huey_is_replaced_from_the_sealed_parent(tmp_path: Path, url: str) -> None:
    words = ("pasture", "run", "huey_consumer", "huey_jobs.huey", "-k", "process", "-w", "2")
    with started(tmp_path, url, *words) as group:
        python = python_of_queues()
        workers, _ = queue_worker.put_until_all_work(python, "huey_jobs", url, 2)
        os.kill(workers[0], signal.SIGKILL)
        group.wait_for(lambda: "died, restarting" in group.log, "no new worker", timeout_s=60)
        again, _ = queue_worker.put_until_all_work(python, "huey_jobs", url, 2)
        assert workers[1] in again and workers[0] not in again
        assert group.log.count(SEALED) == 1
        group.send_signal(signal.SIGHUP)
        group.wait_for(lambda: group.log.count(SEALED) == 2, "no restart", timeout_s=60)
        assert put("huey_jobs", url, "1")
