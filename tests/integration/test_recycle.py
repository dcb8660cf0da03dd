"""Workers are replaced by their private memory, under load, and no request is lost."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import gunicorn
import psutil
import pytest

PROGRAMS = Path(__file__).parent.parent / "programs"
PATIENCE_S = 60
LIMIT_BYTES = 40 << 20
LEAK_BYTES = 2 << 20
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
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PASTURE_")}
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "pasture",
                    "run",
                    *options,
                    *SERVERS[name],
                    f"127.0.0.1:{port}",
                ],
                cwd=tmp_path,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**inherited, "PYTHONPATH": str(PROGRAMS), "HOME": str(tmp_path)},
            )
        started.append(process)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError):
                ask(port)
                return process, port, tmp_path / "log"
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)

    yield start
    if started:
        print((tmp_path / "log").read_text())
    for process in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        process.kill()
        process.wait(PATIENCE_S)


def ask(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S) as answer:
        return json.load(answer)


@pytest.mark.parametrize("name", SERVERS)
def test_thirty_recycles_under_load_lose_no_request_and_keep_the_limit(start, name):
    if name == "gunicorn-gthread" and gunicorn.version_info < (24,):
        pytest.skip("threaded workers of this gunicorn reset connections at max_requests too")
    process, port, log = start(name, "--max-uss", "40M", "--max-uss-jitter", "0.3")
    answers, failures = [], []
    stop = threading.Event()

    def client():
        while not stop.is_set():
            try:
                answers.append(ask(port))
            except OSError as error:
                failures.append(repr(error))

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in clients:
        thread.start()
    deadline = time.monotonic() + PATIENCE_S
    try:
        while log.read_text().count("recycling worker") < RECYCLES:
            assert time.monotonic() < deadline, "there were too few recycles"
            time.sleep(0.1)
    finally:
        stop.set()
        for thread in clients:
            thread.join()
    assert failures == []
    assert len({answer["pid"] for answer in answers}) >= RECYCLES
    threads = 2 if name == "gunicorn-gthread" else 1
    accepted = CLIENTS if threads > 1 else 1  # those in the queue of threads are served as well
    most = LIMIT_BYTES + accepted * LEAK_BYTES + threads * SLACK_BYTES
    assert max(answer["private"] for answer in answers) <= most
    limits = set(re.findall(r"passes this worker's limit of ([\d.]+) MB", log.read_text()))
    assert len(limits) > 10, "the workers' own limits are all the same"
    if name == "uwsgi":
        wait_until_all_are_replaced(log)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0


def wait_until_all_are_replaced(log):
    """uWSGI forgets a stop that comes while it starts a worker, and waits for that one's end."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        text = log.read_text()
        if text.count("(accepting)...") == WORKERS + text.count("recycling worker"):
            return
        assert time.monotonic() < deadline, "a worker was not replaced"
        time.sleep(0.1)


def test_without_a_limit_nothing_is_recycled(start):
    _, port, log = start("gunicorn-sync")
    for _ in range(60):
        ask(port)
    assert "recycling" not in log.read_text()


def test_the_users_own_hook_runs_too_and_a_configuration_file_sets_the_limit(start, tmp_path):
    (tmp_path / "gunicorn.conf.py").write_text(
        "from pasture.servers.gunicorn import configure\n"
        "configure(max_uss='30M')\n"
        "def post_request(worker, req, environ, resp):\n"
        "    worker.log.info('own hook %s', resp.status)\n"
    )
    _, port, log = start("gunicorn-sync")
    pids = {ask(port)["pid"] for _ in range(60)}
    assert len(pids) > 3
    assert log.read_text().count("own hook 200 OK") >= 60


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--max-uss", "some", "gunicorn", "x:y"), "is no limit of memory"),
        (("--max-uss", "12K", "gunicorn", "x:y"), "would replace workers without end"),
        (("--max-uss", "40M", "python", "x.py"), "python has no way to replace a worker"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(words, told):
    command = [sys.executable, "-m", "pasture", "run", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and told in done.stderr
