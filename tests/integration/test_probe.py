"""A server whose children cannot serve what its warm-up served finds out before it serves."""

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
from running import TIMEOUT_S, Running, environment, listens

from pasture.launch.ports import free_port
from pasture.proc.tree import forked_workers
from pasture.scoreboard.reader import read_scoreboard

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("small_herd")]

PROGRAMS = Path(__file__).parent.parent / "programs"
PASSED = re.compile(r"probe: (\d+) requests? answered as expected")
RESTARTED = "pasture: probe: restarting without the warm-up"
RESTARTED_PLAIN = "pasture: probe: restarting without pasture"


def options(*paths, others=()):
    """Of `pasture run`, so that what hangs does so for a second."""
    warm = [word for path in paths for word in ("--warm", path)]
    return (*warm, "--probe-timeout", "2", *others)


def fetch(port, path="/"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S) as answer:
        return answer.read()


def test_a_healthy_server_passes_and_its_probe_is_no_worker(serve, tmp_path):
    server = serve(
        options=options("/", "/slow", "POST /form"),
        app="probed_app:app",
        env={"PASTURE_REPORT_FILE": str(tmp_path / "report")},
    )
    assert PASSED.search(server.log)[1] == "2"
    assert server.log.count("posted by") == 1  # safe methods alone are sent again
    board = server.wait_for_starts(2)
    assert len(server.workers()) == 2
    assert board.seal.probe == "passed"
    assert "unknown child" not in server.log and "was sent SIG" not in server.log
    probe = json.loads((tmp_path / "report").read_text())["steps"][-1]
    assert (probe["name"], probe["counts"]) == (
        "probe",
        {"requests": 2, "differences": 0, "doubts": 0, "compared": 1},
    )
    assert server.stop() == 0


def test_a_server_starts_without_the_warm_up_that_breaks_its_children(serve, tmp_path):
    server = serve(
        *("--pid", str(tmp_path / "pid")),
        options=options("/", "/pool"),
        app="probed_app:app",
    )
    assert re.search(
        r"\[ERROR\] pasture: probe: GET /pool: hung in Condition\.wait \(threading\.py:\d+\), "
        r"called by page \(.*probed_app\.py:\d+\); "
        r"threads of the parent that no worker has: consumer\n",
        server.log,
    )
    assert RESTARTED in server.log and RESTARTED_PLAIN not in server.log
    assert "warm-up: left out, since the probe of an earlier start failed: GET /pool" in server.log
    assert PASSED.search(server.log)[1] == "2"
    assert b"<b>" in fetch(server.port, "/pool")
    server.wait_for(lambda: (tmp_path / "pid").exists(), "a file with the pid")
    assert int((tmp_path / "pid").read_text()) == server.pid
    assert len(server.workers()) == 2
    assert server.stop() == 0
    assert not (tmp_path / "pid").exists()


def test_a_server_that_fails_either_way_starts_without_pasture(serve):
    server = serve(options=options("/lost", "/"), app="probed_app:app")
    cause = r"GET /lost: raises lost connection: ConnectionResetError: the connection is the par"
    assert len(re.findall(rf"probe: {cause}.* in page \(.*probed_app\.py:\d+\)\n", server.log)) == 2
    assert server.log.index(RESTARTED) < server.log.index(RESTARTED_PLAIN)
    assert re.search(rf"pasture: left out, since .*{cause}.*: no seal", server.log)
    assert fetch(server.port)
    assert read_scoreboard(server.pid) is None
    assert server.stop() == 0


WRONG = {
    "/error": "answers 500 instead of 200",
    "/poor": "the body is text/html, 1 tag (",
    "/crash": "the process ended by SIGABRT",
}
HANGS = {"/native": "hung in page ("}


@pytest.mark.parametrize("wrong", [WRONG, HANGS], ids=lambda wrong: "".join(wrong))
def test_what_goes_wrong_in_a_child_is_named(serve, wrong):
    paths = [path for path in wrong for _ in range(2)]
    server = serve(
        options=options(*paths, others=("--probe-failure", "report")), app="probed_app:app"
    )
    for path, words in wrong.items():
        assert f"[ERROR] pasture: probe: GET {path}: {words}" in server.log
    assert "pasture: probe: it failed, but the server starts" in server.log
    assert read_scoreboard(server.pid).seal.probe == "failed"


def test_another_body_than_one_that_was_seen_once_is_a_warning(serve):
    server = serve(options=options("/poor"), app="probed_app:app")
    assert "[WARNING] pasture: probe: GET /poor: the body is text/html, 1 tag (" in server.log
    assert RESTARTED not in server.log
    assert read_scoreboard(server.pid).seal.probe == "doubtful"


@pytest.mark.parametrize("choice", [("--probe-failure", "end"), ("--strict",)])
def test_a_server_does_not_start_if_it_shall_not(serve, tmp_path, choice):
    server = serve(
        *("--pid", str(tmp_path / "pid")),
        options=options("/error", others=choice),
        app="probed_app:app",
        ready=False,
    )
    assert server.wait_for_end() == 18
    assert "error: a process forked after the seal fails: GET /error: answers 500" in server.log
    assert not (tmp_path / "pid").exists()


def test_no_pasture_at_once_and_no_probe_at_all(serve):
    unsealed = serve(
        options=options("/error", others=("--probe-failure", "unsealed")), app="probed_app:app"
    )
    assert RESTARTED not in unsealed.log and RESTARTED_PLAIN in unsealed.log
    unprobed = serve(options=options("/error", others=("--no-probe",)), app="probed_app:app")
    assert "probe" not in unprobed.log


def test_a_connection_that_waits_during_the_first_start_is_served_by_the_second(serve):
    server = serve(options=options("/slow", "/lost"), app="probed_app:app", ready=False)
    server.wait_until_it_logs("pasture: warm-up: GET /slow")
    with ThreadPoolExecutor(1) as clients:
        answer = clients.submit(fetch, server.port)
        assert b"<b>" in answer.result(TIMEOUT_S)
    assert RESTARTED_PLAIN in server.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_and_its_probe_that_hangs(serve, number):
    server = serve(
        options=("--warm", "/native", "--probe-timeout", "3600"),
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


def test_many_requests_that_fail_for_one_reason_fill_no_log(serve):
    paths = [f"/lost?{number}" for number in range(12)]
    server = serve(
        options=options(*paths, others=("--probe-failure", "report")), app="probed_app:app"
    )
    assert server.log.count("probe: GET /lost") == 10
    assert "pasture: probe: 2 more differ" in server.log


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
        options=options(path, others=("--probe-failure", "report")),
        app="registering_app:app",
        conf=REGISTERING,
        env={"REGISTER": str(register)},
    )
    assert ("GET /hang: hung in Condition.wait" in server.log) == (path == "/hang")
    assert "it was killed" not in server.log
    board = {"row", "exit", "hook", "atexit", "finalizer", "thread"}
    server.wait_for(
        lambda: rows(register) == dict.fromkeys(server.workers(), board), "rows of workers alone"
    )
    assert not list(register.glob("shared-at-the-end-of-*"))
    assert fetch(server.port) == b"there"
    assert server.stop() == 0
    assert rows(register) == {}


def test_a_probe_starts_nothing_of_a_class_whose_loop_cannot_be_replaced(serve, register):
    server = serve(
        *("-k", "registering_app.OwnLoop"),
        options=options("/"),
        app="registering_app:app",
        conf=REGISTERING,
        env={"REGISTER": str(register)},
    )
    assert (
        "probe: run() of the class registering_app.OwnLoop does not go on in gunicorn's: the "
        "application is served alone" in server.log
    )
    assert PASSED.search(server.log)[1] == "1"
    server.wait_for(lambda: len(rows(register)) == 2, "two workers")
    assert set(rows(register)) == set(server.workers())


def test_a_probe_that_is_ended_with_its_server_ends_all_that_it_has_started(serve, register):
    server = serve(
        *("-k", "registering_app.Worker"),
        options=("--warm", "/hang", "--probe-timeout", "3600"),
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
    assert "probe: GET /lost: raises lost connection: ConnectionResetError" in server.log
    assert RESTARTED in server.log and fetch(server.port)


@pytest.mark.parametrize("worker", ["uvicorn.workers.UvicornWorker", "asgi"])
def test_what_belongs_to_the_loop_of_the_warm_up_is_found(serve, worker):
    server = serve("-k", worker, options=options("/", "/kept"), app="probed_asgi_app:app")
    assert "probe: GET /kept: raises bound to an event loop of the parent: Runt" in server.log
    assert PASSED.search(server.log)[1] == "2" and RESTARTED_PLAIN not in server.log
    assert fetch(server.port, "/kept")


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


def test_uvicorn_starts_without_the_warm_up_that_breaks_its_workers(tmp_path):
    with uvicorn(tmp_path, *options("/", "/kept")) as server:
        wait_for_workers(server)
        assert "pasture: probe: GET /kept: raises bound to an event loop of the pa" in server.log
        assert RESTARTED in server.log and PASSED.search(server.log)[1] == "2"
        assert fetch(server.port, "/kept")
        assert len(server.children()) == 2
        assert server.stop() == 0


def test_uvicorn_starts_without_pasture_where_its_workers_hang(tmp_path):
    with uvicorn(tmp_path, *options("/hang")) as server:
        wait_for_workers(server)
        assert re.search(
            r"GET /hang: hung in sleep \(asyncio/tasks\.py:\d+\), called by page \(.*:\d+\)\n",
            server.log,
        )
        assert RESTARTED_PLAIN in server.log and "pasture: left out, since the probe" in server.log
        assert fetch(server.port)
        ended = re.findall(r"lifespan shutdown in (\d+)", server.log)
        started = re.findall(r"lifespan startup in (\d+)", server.log)
        left = set(started).difference(ended)
        assert len(set(ended)) == 2 and left <= set(map(str, server.children()))


def test_the_probe_starts_and_ends_an_application_unless_asked_otherwise(tmp_path):
    with uvicorn(tmp_path, *options("/")) as server:
        wait_for_workers(server)
        lifespans = re.findall(r"lifespan (startup|shutdown) in (\d+)", server.log)
        alone = {pid for what, pid in lifespans if what == "shutdown"} - {str(server.pid)}
        assert len(alone) == 1 and not alone & {str(pid) for pid in server.children()}
    with uvicorn(tmp_path, *options("/", others=("--no-probe-lifespan",))) as server:
        wait_for_workers(server)
        assert PASSED.search(server.log)
        started = {pid for _, pid in re.findall(r"lifespan (startup) in (\d+)", server.log)}
        assert started <= {str(pid) for pid in (server.pid, *server.children())}


def test_bodies_of_an_application_that_the_warm_up_did_not_start_are_not_compared(tmp_path):
    with uvicorn(tmp_path, *options("/started")) as server:
        wait_for_workers(server)
        assert PASSED.search(server.log)


def test_an_application_that_can_start_only_once_is_found(tmp_path):
    begin = options("/", others=("--lifespan", "warm-up"))
    with uvicorn(tmp_path, *begin, env={"PROBED_STARTS_ONCE": "1"}) as server:
        wait_for_workers(server)
        assert "probe: lifespan startup: raises RuntimeError: it was started before" in server.log
        assert RESTARTED in server.log and PASSED.search(server.log)


def test_a_signal_ends_uvicorn_and_its_probe_that_hangs(tmp_path):
    begin = ("--warm", "/hang", "--probe-timeout", "3600")
    with uvicorn(tmp_path, *begin) as server:
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
        assert RESTARTED in server.log
        with socket.socket(socket.AF_UNIX) as client:
            server.wait_for(lambda: client.connect_ex(str(port)) == 0, "a listening socket")
    finally:
        print(server.log)
        server.destroy()


LOST = "lost_client_app"
HUNG = (
    r"probe: GET /: hung in .*{app} \(.*lost_client_app\.py:\d+\); "
    r"threads of the parent that no worker has: client\n"
)
FOUND = "thread client does not survive a fork: start it in each worker"


@pytest.mark.parametrize(
    ("worker", "app"),
    [("sync", "app"), ("gthread", "app"), ("uvicorn.workers.UvicornWorker", "asgi")],
)
def test_without_a_warm_up_a_client_whose_thread_no_worker_has_is_found(serve, worker, app):
    """As ZEO's: each request waits for ever in each worker, under --preload alone, too."""
    server = serve("-k", worker, options=options(), app=f"{LOST}:{app}")
    assert re.search(HUNG.format(app=app), server.log)
    assert f"probe: the seal had found: {FOUND}\n" in server.log
    assert RESTARTED not in server.log and RESTARTED_PLAIN in server.log
    assert re.search(rf"left out, since .*GET /: hung in .*; {FOUND}: no seal\n", server.log)
    assert int(fetch(server.port)) in server.workers()
    assert server.stop() == 0


def test_what_the_master_lost_is_no_obstacle_where_a_worker_does_without(serve, tmp_path):
    server = serve(
        options=options(),
        app=f"{LOST}:app",
        env={"LOST_AT": "/elsewhere", "PASTURE_REPORT_FILE": str(tmp_path / "report")},
    )
    assert f"hazard: {FOUND}" in server.log
    assert "[INFO] pasture: probe: GET / answered in a process that was forked as" in server.log
    assert read_scoreboard(server.pid).seal.probe == "served"
    probe = json.loads((tmp_path / "report").read_text())["steps"][-1]
    assert probe["name"] == "probe" and probe["counts"]["requests"] == 1


def test_another_request_is_sent_where_one_is_named(serve):
    server = serve(
        options=options("/", others=("--probe-request", "/elsewhere")),
        app=f"{LOST}:app",
        env={"LOST_AT": "/elsewhere"},
    )
    hung = "probe: GET /elsewhere: hung in Condition.wait"
    assert server.log.count(f"[ERROR] pasture: {hung}") == 2  # without the warm-up, too
    assert server.log.index(RESTARTED) < server.log.index(RESTARTED_PLAIN)
    assert fetch(server.port, "/elsewhere")


def test_an_error_that_the_parent_was_not_asked_for_is_a_warning(serve):
    server = serve(
        options=options(others=("--probe-request", "/error")),
        app=f"{LOST}:app",
        env={"LOST_AT": "/elsewhere"},
    )
    assert "[WARNING] pasture: probe: GET /error: answers 500; whether it would be so" in server.log
    assert read_scoreboard(server.pid).seal.probe == "erred"


def test_a_process_that_dies_counts_without_a_warm_up_too(serve):
    server = serve(
        options=options(others=("--probe-request", "/crash", "--probe-failure", "end")),
        app=f"{LOST}:app",
        env={"LOST_AT": "/elsewhere"},
        ready=False,
    )
    assert server.wait_for_end() == 18
    assert f"GET /crash: the process ended by SIGABRT; {FOUND}" in server.log


def test_without_a_hazard_or_with_no_probe_nothing_is_sent(serve):
    healthy = serve(options=options(), app="probed_app:app")
    assert "probe" not in healthy.log
    unprobed = serve(options=options(others=("--no-probe",)), app=f"{LOST}:app")
    assert f"hazard: {FOUND}" in unprobed.log and "probe" not in unprobed.log


def test_uvicorn_without_a_warm_up_starts_without_what_its_workers_hang_in(tmp_path):
    with uvicorn(tmp_path, *options(), app=f"{LOST}:asgi") as server:
        wait_for_workers(server)
        assert re.search(HUNG.format(app="asgi"), server.log)
        assert RESTARTED_PLAIN in server.log and fetch(server.port)


def test_a_slow_first_request_that_works_is_no_hang(serve):
    server = serve(
        options=options(others=("--probe-request", "/busy")),
        app=f"{LOST}:app",
        env={"LOST_AT": "/elsewhere"},
    )
    assert "probe: its time was over in GET /busy, in " in server.log
    assert RESTARTED_PLAIN not in server.log
    assert read_scoreboard(server.pid).seal.probe == "incomplete"
