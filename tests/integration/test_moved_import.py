"""What the import of an application holds: each worker has it, or is the leader, as in plain ones.

Red where pasture loads the application before the fork and serves all the same.
"""

import json
import os
import signal
import socketserver
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from running import completed, environment, free_port

from pasture.servers.gunicorn.worker_user import as_worker_user

LEADERS = ("flock", "lockf", "exclusive file", "endless end", "port")
HELD = (
    *("thread", "semaphore", "temporary file", "pipe", "process", "popen", "loop"),
    *("database", "temporary folder", "timer", "failure", "connection"),
    *("watch", "handler", "registered traceback"),
)
KEPT = (
    *("restarted thread", "executor", "read file", "listener of logging", "shared memory"),
    *("counters", ""),
)
WORKERS = 2
PLAIN = "pasture: no seal: plain, because "


class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)


@pytest.fixture
def echo():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def start(serve, echo, tmp_path):
    def start(held, *args, env=(), **named):
        port = echo if held == "connection" else free_port()
        variables = {"HOLDS": held, "HELD_IN": str(tmp_path), "HELD_PORT": str(port)} | dict(env)
        return serve(*args, app="holding_app:app", env=variables, workers=WORKERS, **named)

    return start


def answers(server):
    """The last answer of each worker."""
    found = {}
    server.wait_for(
        lambda: (
            found.update((one["pid"], one) for one in [server.get("/")]) or len(found) == WORKERS
        ),
        "an answer of each worker",
    )
    return found


@pytest.mark.parametrize("held", HELD)
def test_workers_have_what_the_import_of_each_plain_worker_holds(start, held):
    server = start(held)
    assert [one["there"] for one in answers(server).values()] == [True] * WORKERS
    assert PLAIN in server.log


@pytest.mark.parametrize("held", LEADERS)
def test_one_worker_of_all_is_the_leader(start, held):
    server = start(held)
    assert sum(one["leader"] for one in answers(server).values()) == 1
    assert PLAIN in server.log


def test_a_file_that_another_process_has_created_stays_and_is_no_reason(start, tmp_path):
    lock = tmp_path / "leader.lock"
    lock.write_text("another server's")
    server = start("exclusive file")
    assert not any(one["leader"] for one in answers(server).values())
    assert PLAIN not in server.log
    assert lock.read_text() == "another server's"


def test_a_strict_server_that_its_own_command_started_ends_without_a_traceback(start):
    conf = "from pasture.servers.gunicorn import *"
    server = start("thread", conf=conf, plain=True, env={"PASTURE_STRICT": "1"}, ready=False)
    assert server.wait_for_end() == 12
    assert "not safe to fork: thread " in server.log and "Traceback" not in server.log


@pytest.mark.parametrize("held", KEPT)
def test_what_comes_back_in_children_is_no_reason_to_serve_plain(start, held):
    server = start(held)
    assert [one["there"] for one in answers(server).values()] == [True] * WORKERS
    assert PLAIN not in server.log
    assert "objects immortal" in server.log
    assert "comeback.py" not in server.log, "the child that shows it warns of nothing"


def test_what_the_user_accepts_is_sealed_in_and_named(start):
    server = start("thread", options=("--accept", "threads"))
    assert [one["there"] for one in answers(server).values()] == [False] * WORKERS
    assert "objects immortal" in server.log
    assert "hazard: thread" in server.log


@pytest.mark.parametrize("held", ["thread", "listener of logging", "connection"])
def test_what_gunicorn_itself_preloads_is_named_alone(start, held):
    server = start(held, "--preload")
    assert PLAIN not in server.log
    assert f"hazard: {'the connection to' if held == 'connection' else 'thread'} " in server.log


def test_a_strict_server_ends_in_place_of_a_plain_start(start):
    server = start("flock", options=("--strict",), ready=False)
    assert server.wait_for_end() == 12
    assert "the lock on" in server.log
    assert "holding_app.py:" in server.log
    assert "--accept locks" in server.log


def test_the_line_says_what_where_and_how_to_accept_it(start, tmp_path):
    report = tmp_path / "report.json"
    server = start("thread", env={"PASTURE_REPORT_FILE": str(report)})
    line = next(line for line in server.log.splitlines() if PLAIN in line)
    for word in ("Thread-1", "holding_app in", "holding_app.py:", "post_fork", "--accept threads"):
        assert word in line
        assert word in json.loads(report.read_text())["reason"]


REFORK = ("--refork", "2")


@pytest.mark.parametrize("held", ["thread", "flock", "failure", "connection"])
def test_a_mold_whose_import_holds_something_leaves_it_to_plain_workers(start, held):
    server = start(held, options=REFORK)
    found = answers(server).values()
    assert [one["there"] for one in found] == [True] * WORKERS
    assert sum(one["leader"] for one in found) == (held in LEADERS)
    assert PLAIN in server.log


@pytest.mark.parametrize("held", ["executor", "listener of logging", "read file", "counters"])
def test_workers_of_each_generation_have_what_comes_back_in_children(start, held):
    server = start(held, options=REFORK)
    assert [one["there"] for one in answers(server).values()] == [True] * WORKERS
    for _ in range(6):
        server.get("/")
    server.wait_until_it_logs("all workers are of generation 1")
    assert [one["there"] for one in answers(server).values()] == [True] * WORKERS


def test_hup_to_code_that_holds_something_leaves_the_old_workers(serve, tmp_path):
    (tmp_path / "changing.py").write_text("from holding_app import app\n")
    # No worker answers so many: a refork would put others in the place of the old ones.
    options = ("--refork", "100000")
    server = serve(app="changing:app", options=options, env={"PYTHONDONTWRITEBYTECODE": "1"})
    before = set(answers(server))
    text = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True)"
    (tmp_path / "changing.py").write_text(f"{text}.start()\nfrom holding_app import app\n")
    server.send(signal.SIGHUP)
    server.wait_until_it_logs("HUP failed: thread ")
    assert set(answers(server)) & before


def test_a_program_that_starts_plain_is_not_said_to_have_forked_nothing(tmp_path):
    path = tmp_path / "serves.py"
    path.write_text(
        "from pasture.serving import moved_import, restart, settings\n"
        "named = {'log': lambda level, line: None}\n"
        "if restart.why_plain is None:\n"
        "    own = settings.read_environment()\n"
        "    with moved_import.moved_import(own, restart.again, **named):\n"
        "        import holding_app\n"
    )
    program = [sys.executable, "-m", "pasture", "run", "--", sys.executable, str(path)]
    folder = Path(__file__).parent.parent / "programs"
    named = {"HOLDS": "flock", "HELD_IN": str(tmp_path), "PYTHONPATH": str(folder)}
    done = completed(program, env=environment(named))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has workers of another user")
def test_files_of_the_import_are_of_the_user_whose_workers_would_import():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        cfg = SimpleNamespace(uid=65534, gid=65534, initgroups=False)
        before = os.getgroups(), os.getegid()
        with as_worker_user(cfg):
            os.close(os.open(f"{folder}/made", os.O_CREAT | os.O_WRONLY))
        made = Path(folder, "made").stat()
        assert (made.st_uid, made.st_gid) == (65534, 65534)
        assert (os.getgroups(), os.getegid(), os.geteuid()) == (*before, 0)
