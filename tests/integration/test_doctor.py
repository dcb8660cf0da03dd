"""`pasture doctor` on real servers."""

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest
from running import TIMEOUT_S, pasture

from pasture.proc import tree
from pasture.scoreboard.reader import read_scoreboard

PROGRAMS = Path(__file__).parents[1] / "programs"


def doctor(*words, **how):
    return pasture("doctor", *words, **how)


def test_a_sealed_server_shares_its_memory_and_runs_no_threads(serve, tmp_path):
    server = serve(workers=2)
    done = doctor(server.process.pid, "--json", tmp_path / "found.json")
    document = json.loads((tmp_path / "found.json").read_text())
    by_check = {finding["check"]: finding["is_obstacle"] for finding in document["findings"]}
    assert by_check["preload"] is False
    assert document["master"] == server.process.pid
    assert done.returncode == (15 if any(by_check.values()) else 0), done.stdout


@pytest.mark.once
def test_a_hazard_in_the_log_is_known_to_all_who_look_at_the_server(serve):
    server = serve(env={"HERD_THREAD": "1"}, options=("--accept", "threads"))
    [hazard] = re.findall(r"pasture: hazard: (thread .*)", server.log)
    what = hazard.partition(" does")[0]
    done = doctor(server.process.pid)
    assert done.returncode == 15 and f"! hazards: {what}" in done.stdout, done.stdout
    assert f"\nhazard: {hazard}\n" in pasture("top", "--once", server.pid).stdout
    assert f"- hazard: {hazard}.\n" in pasture("explain", server.pid).stdout
    found = read_scoreboard(server.process.pid)
    assert found is not None and found.seal.hazards == 1


@pytest.mark.once
def test_a_thread_that_waits_is_named_and_is_no_obstacle(serve):
    server = serve(workers=1, env={"HERD_THREAD": "1"}, options=("--accept", "threads"))
    done = doctor(server.process.pid)
    assert "threads: a thread of the master waits: herd-thread; the heap was sealed" in done.stdout
    assert "! threads" not in done.stdout


@pytest.mark.once
def test_the_thread_that_kept_a_command_from_being_sealed_is_named_with_its_package(tmp_path):
    command = (sys.executable, "-m", "pasture", "run", "gunicorn", "herd_app:app", "-w", "1")
    bind = ("-b", f"unix:{tmp_path}/socket", "--no-control-socket")
    environ = {**os.environ, "HERD_THREAD": "runs", "PASTURE_ACCEPT": "threads"}
    done = doctor("--", *command, *bind, cwd=PROGRAMS, env=environ)
    assert done.returncode == 15, done.stdout + done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("! threads")]
    assert "1 other Python thread(s) running: herd-thread (" in line and "herd_app.py:" in line
    assert line.endswith("; herd-thread of herd_app")
    assert "the seal left out gather-code, immortalize" in done.stdout
    assert "herd_app: start it in each worker" in done.stdout


LIFESPAN = """
KEPT = {}

async def app(scope, receive, send):
    while scope["type"] == "lifespan":
        what = (await receive())["type"]
        KEPT["table"] = [[str(i)] for i in range(100_000)]
        await send({"type": what + ".complete"})
        if what == "lifespan.shutdown":
            return
"""


@pytest.mark.once
def test_data_that_a_lifespan_loads_is_named_and_not_taken_for_a_missing_preload(tmp_path):
    pytest.importorskip("uvicorn")
    (tmp_path / "tables.py").write_text(LIFESPAN)
    command = (sys.executable, "-m", "pasture", "run", "uvicorn", "tables:app", "--workers", "2")
    done = doctor("--", *command, "--port", "0", cwd=tmp_path)
    assert done.returncode == 15, done.stdout + done.stderr
    assert "! own-data: each worker built" in done.stdout
    assert "in its lifespan" in done.stdout
    assert "! preload" not in done.stdout


@pytest.mark.once
def test_a_command_is_run_and_who_turns_the_collector_on_is_named(tmp_path):
    (tmp_path / "library.py").write_text("import gc\ndef load():\n    gc.enable()\n")
    program = "import library, os, time\nlibrary.load()\nif os.fork():\n    os.wait()\n"
    (tmp_path / "server.py").write_text(
        program + "else:\n    open('pid', 'w').write(str(os.getpid()))\n    time.sleep(100)\n"
    )
    done = doctor("--", sys.executable, "server.py", cwd=tmp_path)
    assert done.returncode == 15, done.stdout + done.stderr
    assert f"library ({tmp_path}/library.py:3) called gc.enable()" in done.stdout
    left_behind_by_its_master = int((tmp_path / "pid").read_text())
    end = time.monotonic() + TIMEOUT_S
    while tree.is_running(left_behind_by_its_master) and time.monotonic() < end:
        time.sleep(0.05)
    assert not tree.is_running(left_behind_by_its_master)


LEAVES_A_WORKER = """
import os, signal, time
def end(number, frame):
    open("asked", "w").close()
    os._exit(0)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, end)
    time.sleep(100)
os.wait()
"""


@pytest.mark.once
def test_a_worker_left_behind_is_asked_to_end_before_it_is_killed(tmp_path):
    (tmp_path / "server.py").write_text(LEAVES_A_WORKER)
    doctor("--", sys.executable, "server.py", cwd=tmp_path)
    assert (tmp_path / "asked").exists()


@pytest.mark.once
def test_a_command_that_does_not_exist_is_an_error_of_the_call(tmp_path):
    done = doctor("--", tmp_path / "nothing")
    assert done.returncode == 2
    assert "give a pid, or a command after --" in done.stderr


@pytest.mark.once
def test_a_command_that_forks_nothing_is_an_error_with_a_hint(tmp_path):
    done = doctor("--", sys.executable, "-c", "print('no server')")
    assert done.returncode == 11
    assert "ended with status 0 before it forked a worker" in done.stderr
