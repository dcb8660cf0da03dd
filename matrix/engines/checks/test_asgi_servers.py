"""hypercorn and granian, their workers forked from a sealed parent: signals, kills, refusals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import urllib.request
from pathlib import Path

import psutil
import pytest

from benchmarks.uvicorn_workers import PATHS, TIMEOUT_S, Served
from matrix.engines.asgi_row import AsgiServer
from matrix.engines.environments import python_for
from matrix.engines.queue_worker import PROGRAMS
from matrix.engines.rows.granian import SERVER as GRANIAN
from matrix.engines.rows.hypercorn import SERVER as HYPERCORN
from matrix.environments import REPOSITORY
from pasture.learning import file
from pasture_tools.launch.ports import LOOPBACK, free_port
from pasture_tools.launch.session import Group, environment

SEALED = "pasture: policy seal on "
WORKERS = 2
pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


def started(server: AsgiServer, folder: Path, *words: str) -> Served:
    begin = [str(python_for("asgi")), "-m", "pasture", "run", server.name, *words]
    return Served(begin, WORKERS, folder, server.arguments, server.started)


def workers_of(server: Served) -> set[int]:
    """Pids of its workers, those left out that have ended or end at this moment."""
    found = set()
    for child in psutil.Process(server.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie is one
            if "resource_tracker" not in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


def serve_all(server: Served) -> None:
    for path in PATHS:
        assert server.get(path) == 1


@pytest.mark.parametrize("server", [HYPERCORN, GRANIAN], ids=lambda server: server.name)
def test_hup_replaces_the_workers_and_term_ends_all(server: AsgiServer, tmp_path: Path) -> None:
    with started(server, tmp_path) as running:
        serve_all(running)
        before = workers_of(running)
        assert len(before) == WORKERS
        running.send_signal(signal.SIGHUP)
        running.wait_for(
            lambda: (
                len(workers_of(running) - before) == WORKERS and not workers_of(running) & before
            ),
            "the workers were not replaced",
            timeout_s=TIMEOUT_S,
        )
        running.wait_for(
            lambda: running.log.count(server.started) >= 2 * WORKERS,
            "the new workers did not start",
            timeout_s=TIMEOUT_S,
        )
        serve_all(running)
        assert running.log.count(SEALED) == 1
        running.terminate()
        assert running.wait(TIMEOUT_S) == 0, running.log


def test_granian_replaces_a_killed_worker(tmp_path: Path) -> None:
    with started(GRANIAN, tmp_path, "--respawn-failed-workers") as running:
        before = workers_of(running)
        os.kill(min(before), signal.SIGKILL)
        running.wait_for(
            lambda: running.log.count(GRANIAN.started) > WORKERS,
            "no new worker",
            timeout_s=TIMEOUT_S,
        )
        serve_all(running)
        assert len(workers_of(running) & before) == WORKERS - 1
        running.terminate()
        assert running.wait(TIMEOUT_S) == 0, running.log


@pytest.mark.parametrize("server", [HYPERCORN, GRANIAN], ids=lambda server: server.name)
def test_reload_and_a_missing_application_are_refused_without_a_traceback(
    server: AsgiServer, tmp_path: Path
) -> None:
    begin = [str(python_for("asgi")), "-m", "pasture", "run", server.name]
    for words, code, line in (
        ([*server.arguments(0), "--reload"], 2, "error: with --reload"),
        (["not_there:app"], 5, "error: not_there:app cannot be imported"),
    ):
        done = subprocess.run(
            [*begin, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert line in done.stderr, done.stderr
        assert done.returncode == code


@pytest.mark.parametrize("server", [HYPERCORN, GRANIAN], ids=lambda server: server.name)
def test_at_term_each_worker_ends_its_lifespan_and_answers_what_it_has_taken(
    server: AsgiServer, tmp_path: Path
) -> None:
    port, notes, answers, workers = free_port(), tmp_path / "notes", [], 4
    notes.touch()
    words = {
        "hypercorn": ["--bind", f"{LOOPBACK}:{port}"],
        "granian": ["--interface", "asgi", "--port", str(port)],
    }[server.name]
    command = [str(python_for("asgi")), "-m", "pasture", "run", server.name, *words]
    command += ["--workers", str(workers), "noted_lifespan:app"]
    env = environment({"PYTHONPATH": str(PROGRAMS), "NOTES": str(notes)})

    def ask() -> None:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/slow", timeout=60) as answer:
            answers.append(answer.status)

    def noted(what: str) -> int:
        return notes.read_text().count(what)

    clients = [threading.Thread(target=ask) for _ in range(2)]
    with Group(command, log=tmp_path / "log", env=env) as running:
        running.wait_for(lambda: noted("startup") == workers, "no start", timeout_s=TIMEOUT_S)
        for client in clients:
            client.start()
        running.wait_for(lambda: noted("asked") == 2, "no request", timeout_s=TIMEOUT_S)
        running.terminate()
        assert running.wait(TIMEOUT_S) == 0, running.log
        for client in clients:
            client.join()
    assert (noted("shutdown"), answers) == (workers, [200, 200]), running.log


LOGS_BY_ITSELF = """
import logging.config
logging.config.dictConfig({"version": 1, "disable_existing_loggers": True})
from noted_lifespan import app
"""


def test_a_configuration_of_logging_in_the_application_leaves_granians_parent_log_on(
    tmp_path: Path,
) -> None:
    (tmp_path / "logs_by_itself.py").write_text(LOGS_BY_ITSELF)
    words = ["--interface", "asgi", "--port", str(free_port()), "logs_by_itself:app"]
    command = [str(python_for("asgi")), "-m", "pasture", "run", "granian", *words]
    env = environment({"PYTHONPATH": f"{tmp_path}:{PROGRAMS}", "NOTES": str(tmp_path / "notes")})
    with Group(command, log=tmp_path / "log", env=env) as running:
        running.wait_for(lambda: "Spawning worker-1" in running.log, "no line", timeout_s=TIMEOUT_S)
        running.terminate()
        assert running.wait(TIMEOUT_S) == 0, running.log


@pytest.mark.parametrize("interface", ["asgi", "wsgi"])
@pytest.mark.parametrize("server", [HYPERCORN, GRANIAN], ids=lambda server: server.name)
def test_what_workers_import_is_recorded(
    server: AsgiServer, interface: str, tmp_path: Path
) -> None:
    port, path = free_port(), tmp_path / "site.auto"
    app = f"learning_app:{'asgi' if interface == 'asgi' else 'app'}"
    words = {
        "hypercorn": ["--bind", f"{LOOPBACK}:{port}", f"{interface}:{app}"],
        "granian": ["--interface", interface, "--port", str(port), app],
    }[server.name]
    begin = [str(python_for("asgi")), "-m", "pasture", "run", f"--auto={path}", server.name]
    env = environment({"PYTHONPATH": str(REPOSITORY / "tests" / "programs")})
    with Group([*begin, "--workers", "1", *words], log=tmp_path / "log", env=env) as running:
        running.wait_for(lambda: server.started in running.log, "no worker", timeout_s=TIMEOUT_S)
        url = f"http://{LOOPBACK}:{port}/learned-5"
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            assert answer.status == 200
        running.terminate()
        assert running.wait(TIMEOUT_S) == 0, running.log
    assert "module learned_lazily" in file.read(path)
