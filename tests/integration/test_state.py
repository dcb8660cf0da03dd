"""The state of real servers: `doctor --sealed`, `doctor`, `top` and the metrics say it alike."""

import sys
import time

import pytest
from running import Running, environment, pasture
from test_metrics import roles_as_the_kernel_says

from pasture.proc import tree
from pasture.scoreboard.reader import read_entries
from pasture_tools.doctor.server import parent_of_workers, server_of, state_of
from pasture_tools.metrics.exporter import ServerCollector

OBSTACLES = 15
FORKS = "import os, time\nfor _ in range(2):\n    if not os.fork(): break\ntime.sleep(120)"
LOADS = "import time; time.sleep(120)"
LOSES = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {FORKS!r}], env={{}})"
STATES = {
    "off": (FORKS, "off", "off, because PASTURE=off is set"),
    "another interpreter": (FORKS, "seal", "without effect, because PASTURE is set, and "),
    "loading": (LOADS, "seal", "loading"),
    "lost variable": (LOSES, "seal", "without effect, because process "),
    "nothing": (FORKS, "", "plain, because nothing asks for pasture"),
}


def figures(pid):
    return {
        (one.name, *one.labels.values()): one.value
        for family in ServerCollector(pid).collect()
        for one in family.samples
    }


@pytest.fixture
def start(tmp_path):
    """A program in an interpreter that knows nothing of pasture: `-S` reads no start files."""
    started = []

    def start(text, word):
        env = environment({"PASTURE": word} if word else {})
        started.append(Running([sys.executable, "-S", "-c", text], tmp_path / "log", env))
        return started[-1]

    yield start
    for one in started:
        one.destroy()


@pytest.mark.parametrize("name", STATES)
def test_each_state_is_said_alike(start, name):
    text, word, said = STATES[name]
    program = start(text, word)
    if text != LOADS:
        program.wait_for(lambda: len(tree.descendants(program.pid)) >= 2, "the forks")
        time.sleep(0.2)
    server = server_of(program.pid, "doctor")
    state = str(state_of(server))
    assert state.startswith(said)
    done = pasture("doctor", "--sealed", str(program.pid))
    assert (done.returncode, done.stderr) == (OBSTACLES, f"error: {state}\n")
    found = pasture("doctor", str(program.pid))
    assert found.stdout.splitlines()[0] == state
    assert ("! effect: " in found.stdout) == state.startswith("without effect")
    assert pasture("top", "--once", str(program.pid)).stdout.splitlines()[0] == state
    metrics = figures(server)
    kind = state.partition(",")[0]
    assert metrics["pasture_state", kind] == 1
    assert sum(value for (name, *_), value in metrics.items() if name == "pasture_state") == 1
    assert metrics["pasture_seal_sealed",] == metrics["pasture_seal_hazards",] == 0


def test_every_process_of_a_server_that_reforks_leads_to_its_mold(serve):
    server = serve(options=("--refork", "3"))
    server.wait_for(lambda: len(server.children()) == 3, "a mold and two workers")
    [mold] = [pid for pid, one in read_entries(server.pid).items() if one.role == "mold"]
    assert parent_of_workers(server.pid, read_entries(server.pid)) == mold
    for pid in (server.pid, *server.children()):
        assert server_of(pid, "doctor") == server.pid
        done = pasture("doctor", "--sealed", str(pid))
        assert (done.returncode, done.stdout) == (0, "sealed\n")
    metrics = figures(server.pid)
    roles = roles_as_the_kernel_says(server.pid)
    assert roles == {"master": 1, "mold": 1, "worker": 2}
    assert metrics["pasture_parent_bytes",] > 0


def test_a_thread_of_the_mold_is_an_obstacle(serve):
    server = serve(
        options=("--refork", "3", "--accept", "threads"),
        app="drill_app:app",
        env={"DRILL_THREAD": "1"},
    )
    found = pasture("doctor", str(server.pid))
    assert found.returncode == OBSTACLES
    assert "! hazards: " in found.stdout
    assert "hazard: " in pasture("top", "--once", str(server.pid)).stdout


def test_the_pid_of_a_worker_leads_to_its_server(herd):
    worker = min(herd.children())
    assert str(herd.pid) in pasture("doctor", "--json", "-", str(worker)).stdout
    assert pasture("doctor", "--sealed", str(worker)).returncode == 0
