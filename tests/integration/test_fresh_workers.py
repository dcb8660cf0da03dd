"""What a worker holds of its own before it has served anything: each policy, and each server."""

import importlib.util
import sys
import time
from pathlib import Path

import pytest
from running import Running, environment, free_port

from pasture.sealing.policy import POLICIES

pytestmark = pytest.mark.once

PROGRAMS = Path(__file__).parent.parent / "programs"
WORKERS = 3
MAX_BYTES = 20_000_000
"""Of 35 MB of small containers. Celery uses 10 MB of its own modules before the first task."""

SETTLED_S = 0.5

COMMANDS = {
    "gunicorn": ("gunicorn", "--workers", f"{WORKERS}", "many_lists:app", "--bind"),
    "pyuwsgi": (
        *("uwsgi", "--master", "--module", "many_lists:app", "--processes", f"{WORKERS}"),
        "--http-socket",
    ),
    "celery": ("celery", "-A", "many_lists_tasks", "worker", "-l", "INFO", "-c", f"{WORKERS}"),
}
READY = {"gunicorn": "Booting worker", "pyuwsgi": "spawned uWSGI worker", "celery": " ready."}


def private_bytes(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))


@pytest.fixture
def fresh_workers(tmp_path):
    """Start a server; returns the private bytes of each of its workers, once they are idle."""
    servers = []

    def start(server, policy):
        if importlib.util.find_spec(server) is None:
            pytest.skip(f"{server} is not installed")
        command = [sys.executable, "-m", "pasture", "run", "--policy", policy, *COMMANDS[server]]
        if server != "celery":
            command.append(f"127.0.0.1:{free_port()}")
        env = environment({"PYTHONPATH": str(PROGRAMS), "HOME": str(tmp_path)})
        running = Running(command, tmp_path / "log", env)
        servers.append(running)
        times = 1 if server == "celery" else WORKERS
        running.wait_for(lambda: running.log.count(READY[server]) >= times, "a start")
        running.wait_for(lambda: len(running.children()) >= WORKERS, "all workers")
        time.sleep(SETTLED_S)
        return [private_bytes(pid) for pid in sorted(running.children())]

    yield start
    for running in servers:
        print(f"--- log\n{running.log}")
        running.destroy()


@pytest.mark.parametrize(
    ("server", "policy"),
    [*(("gunicorn", policy) for policy in POLICIES), ("pyuwsgi", "seal"), ("celery", "seal")],
)
def test_a_fresh_worker_holds_little_of_its_own(fresh_workers, server, policy):
    private = fresh_workers(server, policy)
    assert max(private) < MAX_BYTES, private
