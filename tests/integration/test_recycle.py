"""Workers are replaced by their private memory, under load, and no request is lost."""

import json
import re
import signal
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import gunicorn
import pytest
from running import TIMEOUT_S, Running, completed, environment, free_port

PROGRAMS = Path(__file__).parent.parent / "programs"
LIMIT_BYTES = 40 << 20
LEAK_BYTES = 4 << 20
SLACK_BYTES = 3 << 20  # what a request takes besides what it keeps
RECYCLES = 30
WORKERS = 3
CLIENTS = 4

GUNICORN = ("gunicorn", "-w", str(WORKERS), "--graceful-timeout", "20", "leaking_app:app", "--bind")
SERVERS = {
    "gunicorn-sync": GUNICORN,
    "gunicorn-gthread": ("gunicorn", "-k", "gthread", "--threads", "2", *GUNICORN[1:]),
    "uwsgi": (
        "uwsgi",
        "--master",
        "--processes",
        str(WORKERS),
        "--module",
        "leaking_app:app",
        "--min-worker-lifetime",
        "0",
        "--forkbomb-delay",
        "0",
        "--hook-accepting",
        "print:",
        "--http-socket",
    ),
}


@pytest.fixture
def start(tmp_path):
    started = []

    def start(name, *options):
        if name == "uwsgi":
            pytest.importorskip("pyuwsgi")
        port = free_port()
        command = [sys.executable, "-m", "pasture", "run", *options, *SERVERS[name]]
        server = Running(
            [*command, f"127.0.0.1:{port}"],
            tmp_path / "log",
            environment({"PYTHONPATH": str(PROGRAMS), "HOME": str(tmp_path)}),
        )
        started.append(server)
        server.wait_for(lambda: answers(port), "an answer")
        return server, port

    yield start
    for server in started:
        print(server.log)
        server.destroy()


def ask(port, path="/"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def answers(port):
    try:
        return bool(ask(port))
    except OSError:
        return False


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.once
def test_thirty_recycles_under_load_lose_no_request_and_keep_the_limit(start, name):
    if name == "gunicorn-gthread" and gunicorn.version_info < (24,):
        pytest.skip("threaded workers of this gunicorn reset connections at max_requests too")
    server, port = start(name, "--max-uss", "40M")
    given, failures = [], []
    stop = threading.Event()

    def client():
        while not stop.is_set():
            try:
                given.append(ask(port))
            except OSError as error:
                failures.append(repr(error))

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in clients:
        thread.start()
    try:
        server.wait_for(lambda: server.log.count("recycling worker") >= RECYCLES, "30 recycles")
    finally:
        stop.set()
        for thread in clients:
            thread.join()
    assert failures == []
    assert len({answer["pid"] for answer in given}) >= RECYCLES
    threads = 2 if name == "gunicorn-gthread" else 1
    # Those in the queue of threads are served as well, and a client that has its answer may come
    # back to each thread before the worker has looked at its memory.
    accepted = CLIENTS + threads if threads > 1 else 1
    most = LIMIT_BYTES + accepted * LEAK_BYTES + threads * SLACK_BYTES
    assert max(answer["private"] for answer in given) <= most
    limits = set(re.findall(r"passes this worker's limit of ([\d.]+) MB", server.log))
    assert len(limits) > 10, "the workers' own limits are all the same"
    if name == "uwsgi":
        server.wait_for(lambda: is_at_rest(server, port), "a replacement")
    assert server.stop(signal.SIGINT) == 0


def is_at_rest(server, port):
    """uWSGI forgets a stop that comes while it starts a worker, and waits for that one's end.

    A worker looks at its memory after the response, and so may be about to end: not so one that
    has answered again.
    """
    workers = server.children()
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(partial(ask, port), ["/idle"] * 10 * WORKERS))
    replaced = server.log.count("(accepting)...") == WORKERS + server.log.count("recycling worker")
    return replaced and {answer["pid"] for answer in answers} == workers == server.children()


def test_without_a_limit_nothing_is_recycled(start):
    server, port = start("gunicorn-sync")
    for _ in range(60):
        ask(port)
    assert "recycling" not in server.log


@pytest.mark.once
def test_the_users_own_hook_runs_too_and_a_configuration_file_sets_the_limit(start, tmp_path):
    (tmp_path / "gunicorn.conf.py").write_text(
        "from pasture.servers.gunicorn import configure\n"
        "configure(max_uss='30M')\n"
        "def post_request(worker, req, environ, resp):\n"
        "    worker.log.info('own hook %s', resp.status)\n"
    )
    server, port = start("gunicorn-sync")
    pids = {ask(port)["pid"] for _ in range(60)}
    assert len(pids) > 3
    assert server.log.count("own hook 200 OK") >= 60


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("--max-uss", "some", "gunicorn", "x:y"), "is not a size of memory"),
        (("--max-uss", "12K", "gunicorn", "x:y"), "would replace workers endlessly"),
        (("--max-uss", "40M", "python", "x.py"), "python has no way to replace a worker"),
    ],
)
@pytest.mark.once
def test_a_limit_that_makes_no_sense_is_refused(words, reported):
    command = [sys.executable, "-m", "pasture", "run", *words]
    done = completed(command)
    assert done.returncode == 2 and reported in done.stderr
