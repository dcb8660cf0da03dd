"""`PASTURE=seal` in the environment alone: each engine's own command is sealed, and works."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks import airflow_executor
from benchmarks.uvicorn_workers import PATHS, STARTED, TIMEOUT_S, Served
from matrix.engines import queue_worker
from matrix.engines.asgi_row import AsgiServer
from matrix.engines.environments import python_for
from matrix.engines.rows.granian import SERVER as GRANIAN
from matrix.engines.rows.hypercorn import SERVER as HYPERCORN
from matrix.redis_server import redis_server
from pasture.proc import tree

# How vLLM and SGLang start their processes: a list of modules that is not the user's to change, and
# a forkserver that runs before anything else does.
EARLY_FORKSERVER = """
import multiprocessing
import sys
from multiprocessing import forkserver

def look():
    print(sys.getrefcount(sys.modules["queue_stock"].ARTICLES) > 1_000_000, flush=True)

if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload(["queue_stock"])
    forkserver.ensure_running()
    for _ in range(2):
        process = multiprocessing.Process(target=look)
        process.start()
        process.join()
"""
SEALED = "pasture: policy seal on "
WORKERS = 2
FASTAPI = AsgiServer(
    "fastapi",
    lambda port: [
        "run",
        "benchmarks/programs/uvicorn_app.py",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ],
    started=STARTED,
)
pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


def script(environment: str, name: str) -> str:
    return str(python_for(environment).with_name(name))


@pytest.mark.parametrize("server", [FASTAPI, HYPERCORN, GRANIAN], ids=lambda server: server.name)
def test_workers_of_a_server_are_forked_from_a_sealed_parent(
    server: AsgiServer, tmp_path: Path
) -> None:
    begin = ["env", "PASTURE=seal", script("asgi", server.name)]
    with Served(begin, WORKERS, tmp_path, server.arguments, server.started) as running:
        for path in PATHS:
            assert running.get(path) == 1
        assert len(tree.forked_workers(running.pid)) == WORKERS
        assert running.log.count(SEALED) == 1, running.log
        running.terminate()
        assert running.wait(TIMEOUT_S) == 0, running.log


def test_a_forkserver_with_a_list_of_its_own_is_sealed(tmp_path: Path) -> None:
    program = tmp_path / "serve.py"
    program.write_text(EARLY_FORKSERVER)
    command = [str(python_for("queues")), str(program)]
    with queue_worker.start(command, tmp_path, PASTURE="seal") as running:
        assert running.wait(queue_worker.TIMEOUT_S) == 0
        assert running.log.count("True\n") == 2, running.log
        assert running.log.count(SEALED) == 1, running.log


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_airflows_executor_is_sealed_once_however_it_starts_its_workers(
    method: str, tmp_path: Path
) -> None:
    command = [str(python_for("airflow")), str(airflow_executor.PROGRAM), str(WORKERS)]
    variables = {
        "AIRFLOW_HOME": str(tmp_path),
        airflow_executor.METHOD: method,
        airflow_executor.PRELOAD: airflow_executor.THEIR_PRELOAD,
    }
    with queue_worker.start(command, tmp_path, PASTURE="seal", **variables) as executor:
        assert executor.wait(TIMEOUT_S) == 0, executor.log
        assert executor.log.count(SEALED) == 1, executor.log
        assert f'"method": "{method}"' in executor.log


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as address:
        yield address


@pytest.mark.parametrize(
    ("words", "client", "end"),
    [
        (("celery", "-A", "celery_jobs", "worker", "-c", "2"), "celery_jobs", signal.SIGTERM),
        (("dramatiq", "-p", "2", "-t", "1", "dramatiq_jobs"), "dramatiq_jobs", signal.SIGTERM),
        (
            ("huey_consumer", "huey_jobs.huey", "-k", "process", "-w", "2"),
            "huey_jobs",
            signal.SIGINT,
        ),
    ],
    ids=("celery", "dramatiq", "huey"),
)
def test_processes_of_a_queue_are_forked_from_a_sealed_parent(
    words: Sequence[str], client: str, end: signal.Signals, tmp_path: Path, url: str
) -> None:
    name, *arguments = words
    command = [script("queues", name), *arguments]
    with queue_worker.start(command, tmp_path, QUEUE_URL=url, PASTURE="seal") as worker:
        workers, _ = queue_worker.put_until_all_work(
            python_for("queues"), client, url, WORKERS, least=1
        )
        assert set(workers) <= set(tree.forked_workers(worker.pid))
        assert worker.log.count(SEALED) == 1, worker.log
        worker.send_signal(end)
        assert worker.wait(queue_worker.TIMEOUT_S) == 0, worker.log
