"""A server whose children cannot serve what its warm-up served starts as without pasture."""

import contextlib
import json
import os
import re
import signal
import socket
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from running import TIMEOUT_S, Running, environment, free_port, listens

from pasture.proc.tree import forked_workers
from pasture.scoreboard.reader import read_scoreboard

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("small_herd")]

PROGRAMS = Path(__file__).parent.parent / "programs"
PASSED = re.compile(r"probe: (\d+) requests? answered, no 5xx, none slow, ")
PLAIN = "pasture: no seal: plain, because the probe failed: "


def options(*paths, others=()):
    """Of `pasture run`."""
    return (*(word for path in paths for word in ("--warm", path)), *others)


def fetch(port, path="/"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S) as answer:
        return answer.read()


def test_a_healthy_server_passes_and_its_probe_is_no_worker(serve, tmp_path):
    server = serve(
        options=options("/", "/slow", "POST /form", "/"),
        app="probed_app:app",
        env={"PASTURE_REPORT_FILE": str(tmp_path / "report")},
    )
    assert PASSED.search(server.log)[1] == "2"
    assert server.log.count("posted by") == 1  # what reads alone is sent again
    board = server.wait_for_starts(2)
    assert len(server.workers()) == 2
    assert board.seal.probe == "passed"
    assert "unknown child" not in server.log and "was sent SIG" not in server.log
    probe = json.loads((tmp_path / "report").read_text())["steps"][-1]
    assert (probe["name"], probe["counts"]) == ("probe", {"requests": 2, "others": 0})
    assert server.stop() == 0


def test_pages_that_work_once_are_sent_once_and_nothing_is_dropped_for_them(serve):
    server = serve(options=options("/link", "/token", "/"), app="probed_app:app")
    assert (
        "[WARNING] pasture: probe: 3 requests answered, no 5xx, none slow, " in server.log
        and "; another status than in the warm-up: GET /link 410, not 200, GET /token 400, not "
        "302\n"
        in server.log
    )
    processes = re.findall(r"served (?:/link|/token) in (\d+)", server.log)
    assert len(processes) == 4 and len(set(processes)) == 2
    board = server.wait_for_starts(2)
    assert board.seal.sealed and board.seal.probe == "passed"


def test_a_server_whose_child_hangs_is_plain_in_one_stage(serve, tmp_path):
    server = serve(
        *("--pid", str(tmp_path / "pid")),
        options=options("/", "/pool"),
        app="probed_app:app",
    )
    hung = (
        r"GET /pool: hung in wait \(threading\.py:\d+\), "
        r"called by page \(.*probed_app\.py:\d+\)"
    )
    assert re.search(rf"\[ERROR\] pasture: probe: {hung}\n", server.log)
    assert re.search(rf"\[WARNING\] {PLAIN}{hung}\n", server.log)
    assert server.log.count("warm-up: GET /pool\n") == server.log.count("pasture: policy seal") == 1
    assert b"<b>" in fetch(server.port, "/pool")
    server.wait_for(lambda: (tmp_path / "pid").exists(), "a file with the pid")
    assert int((tmp_path / "pid").read_text()) == server.pid
    assert len(server.workers()) == 2
    board = read_scoreboard(server.pid)
    assert board is not None and (board.seal.sealed, board.seal.why) == (False, "plain")
    assert server.stop() == 0
    assert not (tmp_path / "pid").exists()


WRONG = {
    "/error": r"answers 500",
    "/lost": r"raises ConnectionResetError: the connection is .*, in page \(.*probed_app\.py:\d+\)",
    "/crash": r"the process ended by SIGABRT",
    "/native": r"hung in C code; standard error has its stacks",
    "/tardy": r"hung in page \(.*probed_app\.py:\d+\)",
}


@pytest.mark.parametrize("path", WRONG)
def test_what_goes_wrong_in_a_child_ends_the_server_where_that_is_asked_for(serve, tmp_path, path):
    server = serve(
        *("--pid", str(tmp_path / "pid")),
        options=options(path, others=("--strict",) if path == "/lost" else ("--probe", "end")),
        app="probed_app:app",
        ready=False,
    )
    assert server.wait_for_end() == 18
    failed = "error: a process forked after the seal fails: "
    assert re.search(f"{failed}GET {path}: {WRONG[path]}\n", server.log)
    assert len(re.findall(rf"served {path} in", server.log)) == 2
    assert ("probed_app.py" in server.log) == (path not in ("/error", "/crash"))
    assert not (tmp_path / "pid").exists()


def test_without_a_list_nothing_is_sent_and_with_no_probe_neither(serve):
    """A thread of the import is a hazard: what the seal says of it is not the probe's."""
    listless = serve(
        app="lost_client_app:app",
        env={"LOST_AT": "/elsewhere"},
        options=("--accept", "threads,loops"),
    )
    assert "hazard: thread client does not survive a fork" in listless.log
    unprobed = serve(options=options("/error", others=("--probe", "off")), app="probed_app:app")
    assert unprobed.log.count("served /error") == 1
    assert "probe" not in listless.log.replace("probed", "") + unprobed.log.replace("probed", "")


def test_a_connection_that_waits_during_the_first_start_is_served_by_the_second(serve):
    server = serve(options=options("/slow", "/lost"), app="probed_app:app", ready=False)
    server.wait_until_it_logs("pasture: warm-up: GET /slow")
    with ThreadPoolExecutor(1) as clients:
        answer = clients.submit(fetch, server.port)
        assert b"<b>" in answer.result(TIMEOUT_S)
    assert PLAIN in server.log


@pytest.mark.parametrize("kind", ["systemd", "fd"])
def test_listeners_that_were_open_before_the_server_stay_so(serve, kind):
    server = serve(
        options=options("/slow", "/lost"),
        app="probed_app:app",
        before=(sys.executable, str(PROGRAMS / "inheriting.py"), kind),
        ready=False,
    )
    server.wait_until_it_logs("pasture: warm-up: GET /slow")
    second = int(re.search(r"second port (\d+)", server.log)[1])
    with ThreadPoolExecutor(2) as clients:
        answers = [clients.submit(fetch, port) for port in (server.port, second)]
        assert all(b"<b>" in answer.result(TIMEOUT_S) for answer in answers)
    assert PLAIN in server.log and "impossible" not in server.log
    assert server.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_and_its_probe_that_hangs(serve, number):
    server = serve(
        options=options("/native"),
        app="probed_app:app",
        ready=False,
    )
    server.wait_until_it_logs("pasture: policy seal on ")
    server.wait_for(lambda: server.workers(), "a probe")
    [probe] = server.workers()
    time.sleep(0.2)
    assert forked_workers(server.pid) == ()
    assert server.stop(number) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(probe, 0)
    assert "Booting worker" not in server.log


def test_a_signal_that_comes_during_the_seal_ends_the_server_before_any_worker(serve):
    server = serve(
        options=options("/native"),
        app="probed_app:app",
        env={"PROBED_CLOSES_SLOWLY": "1"},
        ready=False,
    )
    server.wait_until_it_logs("closing")
    assert server.stop() == 0
    assert "probe" not in server.log and "Booting worker" not in server.log


@pytest.mark.parametrize("end", ["os._exit(1)", "sys.exit(1)", "os.abort()"])
def test_what_a_worker_does_at_its_end_counts_for_no_request(serve, end):
    begin = "import os, sys\ndef worker_exit(server, worker):\n    print('at its end', flush=True)"
    hook = f"{begin}\n    {end}\n"
    server = serve(options=options("/"), app="probed_app:app", conf=hook)
    assert PASSED.search(server.log)[1] == "1"
    assert server.log.count("at its end") == 1


REGISTERING = """
import os
from registering_app import begin_all, row

def post_fork(server, worker):
    row("hook").touch()
    begin_all(worker)

def worker_exit(server, worker):
    row("hook").unlink()
    (row("child").parent / f"child-{worker.pid}").touch()

def child_exit(server, worker):
    (row("child").parent / f"child-{worker.pid}").unlink()
"""


def rows(folder):
    """What the processes of a registering server have not ended: by pid, names of rows."""
    found = {}
    for path in folder.iterdir():
        what, _, pid = path.name.rpartition("-")
        if not what.startswith("shared"):
            found.setdefault(int(pid), set()).add(what)
    return found


@pytest.fixture
def register(tmp_path):
    folder = tmp_path / "register"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("kind", ["Worker", "Threaded"])
@pytest.mark.parametrize("path", ["/", "/hang"])
def test_a_probe_ends_all_that_a_worker_ends_and_nothing_of_the_parents(
    serve, register, kind, path
):
    server = serve(
        *("-k", f"registering_app.{kind}"),
        options=options(path),
        app="registering_app:app",
        conf=REGISTERING,
        env={"REGISTER": str(register)},
    )
    assert ("GET /hang: hung in wait (" in server.log) == (path == "/hang")
    assert "and was killed" not in server.log
    board = {"exit", "hook", "atexit", "finalizer", "thread"}
    server.wait_for(
        lambda: rows(register) == dict.fromkeys(server.workers(), board), "rows of workers alone"
    )
    assert not list(register.glob("shared-at-the-end-of-*"))
    assert fetch(server.port) == b"there"
    assert server.stop() == 0
    assert rows(register) == {}


def test_a_probe_starts_nothing_of_a_class_with_a_loop_of_its_own(serve, register):
    server = serve(
        *("-k", "registering_app.OwnLoop"),
        options=options("/"),
        app="registering_app:app",
        conf=REGISTERING,
        env={"REGISTER": str(register)},
    )
    assert PASSED.search(server.log)[1] == "1"
    server.wait_for(lambda: len(rows(register)) == 2, "two workers")
    assert set(rows(register)) == set(server.workers())


def test_a_probe_that_is_ended_with_its_server_ends_all_that_it_has_started(serve, register):
    server = serve(
        *("-k", "registering_app.Worker"),
        options=options("/hang"),
        app="registering_app:app",
        conf=REGISTERING,
        env={"REGISTER": str(register)},
        ready=False,
    )
    server.wait_for(lambda: any("exit" in names for names in rows(register).values()), "a probe")
    assert server.stop() == 0
    assert rows(register) == {}


@pytest.mark.parametrize("worker", ["gthread", "gevent"])
def test_requests_are_served_where_workers_of_the_class_serve_them(serve, worker):
    server = serve("-k", worker, options=options("/", "/lost"), app="probed_app:app")
    assert "probe: GET /lost: raises ConnectionResetError" in server.log
    assert PLAIN in server.log and fetch(server.port)


@pytest.mark.parametrize("worker", ["uvicorn.workers.UvicornWorker", "asgi"])
def test_what_belongs_to_the_loop_of_the_warm_up_is_found(serve, worker):
    server = serve("-k", worker, options=options("/", "/kept"), app="probed_asgi_app:app")
    assert "probe: GET /kept: raises RuntimeError: " in server.log
    assert PLAIN in server.log and fetch(server.port, "/kept")


@contextlib.contextmanager
def uvicorn(directory, *options, env=None, app="probed_asgi_app:app"):
    port = free_port()
    run = (sys.executable, "-m", "pasture", "run", *options)
    command = [*run, "uvicorn", app, "--workers", "2", "--port", str(port)]
    variables = {"PYTHONPATH": str(PROGRAMS), **(env or {})}
    server = Running(command, directory / "uvicorn.log", environment(variables))
    server.port = port
    try:
        yield server
    finally:
        print(server.log)
        server.destroy()


def wait_for_workers(server):
    server.wait_for(lambda: server.log.count("Application startup complete") == 2, "two workers")
    server.wait_for(lambda: listens(server.port), "an answer")


def test_uvicorn_is_plain_where_the_warm_up_breaks_its_workers(tmp_path):
    with uvicorn(tmp_path, *options("/", "/kept")) as server:
        wait_for_workers(server)
        assert "pasture: probe: GET /kept: raises RuntimeError: " in server.log
        assert PLAIN in server.log
        assert fetch(server.port, "/kept")
        workers = re.findall(r"Started server process \[(\d+)\]", server.log)
        assert len(workers) == 2 and set(map(int, workers)) <= set(server.children())
        assert server.stop() == 0


def test_uvicorn_is_plain_where_its_workers_hang(tmp_path):
    with uvicorn(tmp_path, *options("/hang")) as server:
        wait_for_workers(server)
        assert re.search(
            r"GET /hang: hung in sleep \(asyncio/tasks\.py:\d+\), called by page \(.*:\d+\)\n",
            server.log,
        )
        assert PLAIN in server.log
        assert fetch(server.port)
        ended = re.findall(r"lifespan shutdown in (\d+)", server.log)
        started = re.findall(r"lifespan startup in (\d+)", server.log)
        left = set(started).difference(ended)
        assert len(set(ended)) == 1 and left <= set(map(str, server.children()))


def test_the_probe_starts_and_ends_an_application_as_a_worker_does(tmp_path):
    with uvicorn(tmp_path, *options("/")) as server:
        wait_for_workers(server)
        lifespans = re.findall(r"lifespan (startup|shutdown) in (\d+)", server.log)
        alone = {pid for what, pid in lifespans if what == "shutdown"} - {str(server.pid)}
        assert len(alone) == 1 and not alone & {str(pid) for pid in server.children()}


def test_an_application_that_can_start_only_once_is_found(tmp_path):
    begin = options("/", others=("--lifespan", "warm-up"))
    with uvicorn(tmp_path, *begin, env={"PROBED_STARTS_ONCE": "1"}) as server:
        wait_for_workers(server)
        assert "probe: lifespan startup: raises RuntimeError: it was started before" in server.log
        assert PLAIN in server.log


def test_a_signal_ends_uvicorn_and_its_probe_that_hangs(tmp_path):
    with uvicorn(tmp_path, *options("/hang")) as server:
        server.wait_for(lambda: "pasture: policy seal on " in server.log, "a seal")
        server.wait_for(lambda: server.children(), "a probe")
        server.stop()
        assert "Application startup complete" not in server.log


def test_no_socket_is_left_in_the_way_of_the_second_start(tmp_path):
    port = tmp_path / "socket"
    run = (sys.executable, "-m", "pasture", "run", *options("/kept"))
    command = [*run, "uvicorn", "probed_asgi_app:app", "--workers", "2", "--uds", str(port)]
    server = Running(command, tmp_path / "log", environment({"PYTHONPATH": str(PROGRAMS)}))
    try:
        server.wait_for(lambda: server.log.count("Application startup complete") == 2, "workers")
        assert PLAIN in server.log
        with socket.socket(socket.AF_UNIX) as client:
            server.wait_for(lambda: client.connect_ex(str(port)) == 0, "a listening socket")
    finally:
        print(server.log)
        server.destroy()
