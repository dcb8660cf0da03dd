"""uWSGI under a seal: the real server, its signals, its exits, and what is refused."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from running import TIMEOUT_S, Running, environment, free_port, listens, pasture
from test_metrics import roles_as_the_kernel_says

from pasture.learning import file
from pasture.scoreboard.reader import read_scoreboard
from pasture_tools.doctor.evidence import gather

pytest.importorskip("pyuwsgi")

PROGRAMS = Path(__file__).parent.parent / "programs"
TOOLS = Path(__file__).resolve().parents[2] / "tools"
SEALED = "pasture: policy seal on "


class Uwsgi(Running):
    def __init__(self, command, directory, port, env):
        super().__init__(command, directory / f"uwsgi-{port}.log", env)
        self.port = port

    def get(self, path, port=None):
        url = f"http://127.0.0.1:{port or self.port}{path}"
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def workers(self):
        return self.children()

    def stop(self, number=signal.SIGQUIT):
        return super().stop(number)


@pytest.fixture
def serve(tmp_path):
    servers = []

    def start(*args, options=(), ini=None, env=None, workers=2, ready=True, app=True):
        port = free_port()
        begin = ["-m", "pyuwsgi"] if ini is not None else ["-m", "pasture", "run", *options]
        if ini is not None:
            (tmp_path / "uwsgi.ini").write_text(f"[uwsgi]\n{ini}")
            begin = ["-c", "import pyuwsgi; pyuwsgi.run()", "--ini", str(tmp_path / "uwsgi.ini")]
        else:
            begin += ["uwsgi"]
        socket_args = ["--http-socket", f"127.0.0.1:{port}", "--master"]
        if app:
            socket_args += ["--module", "herd_app:app"]
        server = Uwsgi(
            [sys.executable, *begin, *socket_args, "--processes", str(workers), *args],
            tmp_path,
            port,
            environment({"PYTHONPATH": str(PROGRAMS), **(env or {})}),
        )
        servers.append(server)
        if ready:
            server.wait_for(lambda: server.log.count("spawned uWSGI worker") >= workers, "a start")
            server.get("/who")
        return server

    yield start
    for server in servers:
        print(f"--- log of uWSGI on port {server.port}\n{server.log}")
        server.destroy()


def until_all_answered(server, path, workers):
    """An answer of each worker: dict of pid to answer."""
    answers = {}
    deadline = time.monotonic() + TIMEOUT_S
    while not workers <= answers.keys():
        assert time.monotonic() < deadline, f"only {set(answers)} of {workers} answer"
        with ThreadPoolExecutor(4) as clients:
            found = list(clients.map(server.get, [path] * 4))
        answers.update({answer["pid"]: answer for answer in found})
    return {pid: answers[pid] for pid in workers}


@pytest.mark.interpreter
@pytest.mark.immortality
def test_workers_read_everything_and_stay_small_after_a_kill_too(serve):
    server = serve()
    first = until_all_answered(server, "/read", server.workers())
    killed = min(first)
    os.kill(killed, signal.SIGKILL)
    server.wait_for(lambda: killed not in server.workers() and len(server.workers()) == 2, "a new")
    second = until_all_answered(server, "/read", server.workers())
    assert max(answer["private_bytes"] for answer in first.values()) < 3_000_000
    assert max(answer["private_bytes"] for answer in second.values()) < 3_000_000
    assert server.log.count(SEALED) == 1


@pytest.mark.interpreter
@pytest.mark.immortality
@pytest.mark.parametrize("how", ["run", "ini"])
def test_a_uwsgi_that_runs_pythons_fork_hooks_is_sealed_once_too(serve, how):
    options = ("--enable-threads", "--py-call-uwsgi-fork-hooks")
    server = serve(*options, ini="import = pasture.servers.uwsgi\n" if how == "ini" else None)
    found = until_all_answered(server, "/read", server.workers())
    killed = min(found)
    os.kill(killed, signal.SIGKILL)
    server.wait_for(lambda: killed not in server.workers() and len(server.workers()) == 2, "a new")
    found |= until_all_answered(server, "/read", server.workers())
    assert max(answer["private_bytes"] for answer in found.values()) < 3_000_000
    assert server.log.count(SEALED) == 1
    assert "Traceback" not in server.log


@pytest.mark.immortality
def test_without_the_seal_workers_grow(serve):
    server = serve(options=("--policy", "stock"))
    answers = until_all_answered(server, "/read", server.workers())
    assert min(answer["private_bytes"] for answer in answers.values()) > 8_000_000


@pytest.mark.once
def test_one_line_in_an_ini_file_is_enough(serve):
    server = serve(ini="import = pasture.servers.uwsgi\n")
    assert server.log.count(SEALED) == 1
    assert server.get("/who")["pid"] in server.workers()
    assert server.log.index(SEALED) < server.log.index("spawned uWSGI worker 1")


@pytest.mark.once
def test_an_ini_file_without_the_line_is_not_touched(serve):
    assert "pasture: " not in serve(ini="processes = 2\n").log


def test_a_warm_up_is_served_before_the_fork(serve):
    server = serve(options=("--warm", "/who", "--warm", "/collector"))
    served_by = server.get("/who")["served_by"]
    assert served_by[:2] == [server.process.pid] * 2


@pytest.mark.once
def test_a_generator_that_seeds_itself_in_a_warm_up_is_each_workers_own(serve, tmp_path):
    (tmp_path / "passwords.py").write_text("""
import json, os, random
own, drawn = [], {}
def app(environ, start_response):
    if not own:
        own.append(random.Random(os.urandom(16)))
    drawn[os.getpid()] = drawn.get(os.getpid()) or own[0].getrandbits(64)
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"pid": os.getpid(), "drawn": drawn[os.getpid()]}).encode()]
""")
    words = ("--pythonpath", str(tmp_path), "--module", "passwords:app")
    server = serve(*words, options=("--warm", "/"), app=False)
    answers = until_all_answered(server, "/", server.workers()).values()
    assert len({answer["drawn"] for answer in answers}) == 2


@pytest.mark.parametrize(
    ("number", "args"),
    [
        (signal.SIGQUIT, ()),
        (signal.SIGQUIT, ("--enable-threads", "--py-call-uwsgi-fork-hooks")),
        (signal.SIGINT, ()),
        (signal.SIGTERM, ("--die-on-term",)),
    ],
)
def test_shutdown_ends_all_workers_with_uwsgis_own_status(serve, number, args):
    server = serve(*args)
    workers = server.workers()
    # A worker that has just been forked still has the master's handlers, and would not end.
    until_all_answered(server, "/who", workers)
    assert server.stop(number) == 0
    assert not any(psutil.pid_exists(pid) for pid in workers)
    assert "goodbye to uWSGI" in server.log
    assert "Traceback" not in server.log


@pytest.mark.parametrize(
    "hooks", [(), ("--threads", "2"), ("--enable-threads", "--py-call-uwsgi-fork-hooks")]
)
@pytest.mark.once
def test_starts_requests_and_collections_are_counted_and_none_is_lost_with_a_worker(serve, hooks):
    server = serve(*hooks)
    for _ in range(5):
        server.get("/collect")

    def total():
        found = read_scoreboard(server.process.pid)
        return found and found.total

    server.wait_for(lambda: total().requests == 6, "counting 6 requests")
    found = server.wait_for_starts(2)  # of one that answered none of them, too
    counted = found.total
    assert counted.collections[2] >= 5
    assert set(found.entries) == server.workers()
    assert (found.seal is not None) == (SEALED in server.log)
    assert all(entry.says_requests for entry in found.entries.values())
    killed = min(server.workers())
    os.kill(killed, signal.SIGKILL)
    server.wait_for(lambda: killed not in server.workers() and len(server.workers()) == 2, "a new")
    found = server.wait_for_starts(3)
    assert found.total.requests == 6 and found.total.collections[2] >= counted.collections[2]
    server.wait_for(
        lambda: read_scoreboard(server.pid).entries.keys() == server.workers(), "their entries"
    )


@pytest.mark.interpreter
def test_functions_at_the_exit_of_a_worker_run_and_its_files_are_flushed(serve, tmp_path):
    (tmp_path / "leaver.py").write_text(
        "import atexit, sys, uwsgi\n"
        "from herd_app import app\n"
        "held = open('held', 'w')\n"
        "def late():\n    print('atexit ran in', uwsgi.worker_id(), flush=True)\n"
        "def own():\n    print('uwsgi.atexit ran in', uwsgi.worker_id(), flush=True)\n"
        "atexit.register(late)\n"
        "uwsgi.atexit = own\n"
    )
    server = serve("--module", "leaver:app", app=False)
    workers = server.workers()
    until_all_answered(server, "/who", workers)
    # uWSGI runs nothing at the end of a worker that it takes for busy: until after the response.
    sleeping = psutil.STATUS_SLEEPING
    server.wait_for(
        lambda: {psutil.Process(pid).status() for pid in workers} == {sleeping}, "workers that wait"
    )
    assert server.stop() == 0
    for wid in (1, 2):
        assert server.log.count(f"\natexit ran in {wid}") == 1, server.log
        assert server.log.count(f"uwsgi.atexit ran in {wid}") == 1


def test_hooks_of_the_application_run_after_a_fork(serve, tmp_path):
    (tmp_path / "hooked.py").write_text(
        "import gc, uwsgi, uwsgidecorators\n"
        "from herd_app import app\n"
        "@uwsgidecorators.postfork\n"
        "def after():\n    print('postfork in', uwsgi.worker_id(), gc.isenabled(), flush=True)\n"
    )
    server = serve("--module", "hooked:app", app=False, options=("--policy", "freeze"))
    for wid in (1, 2):
        server.wait_for(lambda w=wid: f"postfork in {w} True" in server.log, "the hook")


@pytest.mark.parametrize("option", [("--max-requests", "5"), ("--reload-on-rss", "1")])
def test_workers_are_replaced_from_the_sealed_master_and_no_request_is_lost(serve, option):
    server = serve(*option, "--min-worker-lifetime", "0")
    first = server.workers()
    answers = [server.get("/who")["pid"] for _ in range(40)]
    assert len(answers) == 40 and set(answers) - first
    assert server.log.count(SEALED) == 1
    assert "DAMN" not in server.log


def test_a_reload_seals_again_and_loses_no_request(serve):
    """But one that a worker has accepted and not started: docs/uwsgi.md."""
    server = serve()
    # uWSGI waits for good for a worker that was not ready at the HUP: it gets no signal.
    until_all_answered(server, "/who", server.workers())
    master = server.process.pid
    statuses = Counter()
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            try:
                statuses["answered"] += bool(server.get("/who"))
            except ConnectionResetError:
                statuses["reset"] += 1
            except (OSError, urllib.error.URLError) as error:
                statuses[repr(error)] += 1

    client = threading.Thread(target=ask)
    client.start()
    try:
        server.process.send_signal(signal.SIGHUP)
        server.wait_for(lambda: server.log.count(SEALED) == 2, "a second seal")
        server.wait_for(lambda: server.log.count("spawned uWSGI worker 2") == 2, "new workers")
        until_all_answered(server, "/who", server.workers())
        server.wait_for(lambda: statuses["answered"] > 5, "answers beside the reload and after it")
    finally:
        stop.set()
        client.join()
    assert statuses.keys() <= {"answered", "reset"} and statuses["reset"] <= 2  # workers
    assert psutil.Process(master).is_running()
    until_all_answered(server, "/who", server.workers())
    assert server.stop() == 0


@pytest.mark.once
def test_cheaper_workers_come_and_go(serve, tmp_path):
    server = serve(
        "--cheaper",
        "1",
        "--cheaper-initial",
        "1",
        "--cheaper-overload",
        "1",
        workers=4,
        ready=False,
    )
    server.wait_for(lambda: "spawned uWSGI worker 1" in server.log, "a start")
    threads = [threading.Thread(target=server.get, args=("/sleep?0.5",)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(re.findall(r"spawned uWSGI worker|Respawned uWSGI worker", server.log)) > 1
    assert server.log.count(SEALED) == 1
    assert server.get("/who")


@pytest.mark.once
def test_chain_reload_replaces_one_after_the_other(serve, tmp_path):
    touched = tmp_path / "touch"
    touched.write_text("")
    server = serve("--touch-chain-reload", str(touched))
    first = server.workers()
    time.sleep(1.1)  # uWSGI looks at whole seconds
    os.utime(touched)
    server.wait_for(lambda: len(server.workers()) == 2 and not first & server.workers(), "a chain")
    assert server.get("/who")["pid"] in server.workers()
    assert server.log.count(SEALED) == 1


@pytest.mark.parametrize("how", ["pasture-run", "ini"])
@pytest.mark.once
def test_lazy_apps_are_refused(serve, how):
    ini = "import = pasture.servers.uwsgi\n" if how == "ini" else None
    server = serve("--lazy-apps", ini=ini, ready=False)
    try:
        code = server.process.wait(TIMEOUT_S)
    finally:
        assert "error: with lazy-apps each worker loads the application for itself" in server.log
    assert code == (2 if how == "pasture-run" else 0)  # uWSGI's own for a stop by a worker
    assert "Traceback" not in server.log


@pytest.mark.once
def test_a_thread_is_refused_when_strict_and_reported_otherwise(serve):
    # Its workers may hang, as without pasture: uWSGI forks in C while the thread has the lock.
    server = serve(env={"HERD_THREAD": "runs"}, ready=False)
    reason = "not sealed (1 other Python thread(s) running: herd-thread ("
    server.wait_for(lambda: reason in server.log, "the report of the seal")
    strict = serve(env={"HERD_THREAD": "1"}, options=("--strict",), ready=False)
    assert strict.process.wait(TIMEOUT_S) == 12
    assert "herd-thread" in strict.log and "error: " in strict.log


@pytest.mark.once
def test_an_unknown_policy_is_reported_without_a_traceback(serve):
    server = serve(
        ini="import = pasture.servers.uwsgi\n", env={"PASTURE_POLICY": "seel"}, ready=False
    )
    assert server.process.wait(TIMEOUT_S) == 4
    assert "did you mean seal?" in server.log and "Traceback" not in server.log


@pytest.mark.once
def test_a_warm_up_without_an_application_to_find_is_reported(serve, tmp_path):
    (tmp_path / "mounted.py").write_text("from herd_app import app as application\n")
    server = serve("--mount", "/=mounted.py", options=("--warm", "/who"), app=False)
    assert "the application to warm up was not found" in server.log
    assert SEALED in server.log


def nginx():
    done = subprocess.run([str(TOOLS / "services"), "nginx"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"nginx cannot be had: {done.stderr.strip()}")
    return done.stdout.strip()


NGINX_CONF = """
daemon off; pid {dir}/nginx.pid; error_log {dir}/nginx-error.log; worker_processes 1;
{user}
events {{ }}
http {{
    access_log off;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; uwsgi_temp_path {dir}/uwsgi;
    fastcgi_temp_path {dir}/fastcgi; scgi_temp_path {dir}/scgi;
    server {{
        listen 127.0.0.1:{front};
        location / {{
            uwsgi_pass 127.0.0.1:{back};
            uwsgi_param QUERY_STRING $query_string; uwsgi_param REQUEST_METHOD $request_method;
            uwsgi_param PATH_INFO $document_uri; uwsgi_param HTTP_HOST $host;
            uwsgi_param SERVER_NAME $server_name; uwsgi_param SERVER_PORT $server_port;
        }}
    }}
}}
"""


@pytest.mark.once
def test_behind_nginx_every_request_is_answered_while_workers_are_replaced(serve, tmp_path):
    program = nginx()
    front, back = free_port(), free_port()
    conf = tmp_path / "nginx.conf"
    user = "user root;" if os.getuid() == 0 else ""
    conf.write_text(NGINX_CONF.format(dir=tmp_path, front=front, back=back, user=user))
    server = serve(
        "--socket", f"127.0.0.1:{back}", "--max-requests", "20", "--min-worker-lifetime", "0"
    )
    proxy = subprocess.Popen([program, "-e", f"{tmp_path}/nginx-error.log", "-c", str(conf)])
    try:
        server.wait_for(lambda: listens(front), "nginx")
        pids = Counter(server.get("/who", front)["pid"] for _ in range(100))
        assert sum(pids.values()) == 100
        assert len(pids) > 2
    finally:
        proxy.terminate()
        assert proxy.wait(TIMEOUT_S) == 0


@pytest.mark.once
def test_an_interrupt_ends_a_master_whose_warm_up_hangs(serve):
    server = serve(
        *("--module", "hostile_app:app"),
        options=("--warm", "/hang", "--warm", "/who"),
        app=False,
        ready=False,
    )
    server.wait_for(lambda: "warm-up: GET /hang\n" in server.log, "a warm-up")
    assert server.stop(signal.SIGINT) == 128 + signal.SIGINT
    assert "warm-up: GET /who" not in server.log and "spawned uWSGI worker" not in server.log


@pytest.mark.once
def test_a_page_that_hangs_does_not_keep_the_master_from_starting(serve):
    server = serve(
        *("--module", "hostile_app:app"),
        options=("--warm", "/hang", "--warm-total-timeout", "1"),
        app=False,
    )
    assert "GET /hang: no answer in 1 s, stopped in " in server.log
    assert server.get("/who") in server.workers()


@pytest.mark.once
def test_after_a_failed_probe_uwsgi_is_plain_and_said_to_load_before_the_fork(serve):
    server = serve(
        *("--module", "probed_app:app"),
        options=("--warm", "/lost"),
        app=False,
        ready=False,
    )
    server.wait_for(lambda: server.log.count("spawned uWSGI worker") == 2, "a start")
    assert "pasture: probe: GET /lost: raises ConnectionResetError: " in server.log
    assert "pasture: uWSGI loads the application before it forks without pasture, too" in server.log
    assert "pasture: no seal: plain, because the probe failed: GET /lost" in server.log
    assert server.log.count(SEALED) == 1


@pytest.mark.once
def test_what_workers_import_is_recorded(serve, tmp_path):
    path = tmp_path / "site.auto"
    words = ("--module", "learning_app:app", "--disable-logging")
    server = serve(*words, options=(f"--auto={path}",), app=False, workers=1)
    server.get("/learned-5")
    # uWSGI takes a worker whose answer has just gone out for a busy one, and ends it at once.
    server.wait_for(lambda: "module learned_lazily" in file.read(path), "a look of the recorder")
    assert server.stop() == 0


@pytest.mark.once
def test_spooler_mules_router_and_a_daemon_are_no_workers(serve, tmp_path):
    (tmp_path / "spool").mkdir()
    http = ("--http", f"127.0.0.1:{free_port()}")
    daemon = ("--attach-daemon", "sleep 600")
    server = serve("--mule", "--mule", "--spooler", str(tmp_path / "spool"), *http, *daemon)
    server.wait_for(lambda: server.log.count("spawned uWSGI ") >= 6, "all processes")
    server.wait_for(lambda: read_scoreboard(server.pid).total.starts == 2, "workers alone count")
    done = pasture("top", "--once", server.pid)
    roles = Counter(line.split()[1] for line in done.stdout.splitlines()[2:9])
    assert roles == {"master": 1, "worker": 2, "mule": 2, "spooler": 1, "other": 1}, done.stdout
    assert roles_as_the_kernel_says(server.pid) == roles
    assert server.log.count(SEALED) == 1
    assert "2 workers" in done.stdout
    assert len(gather(server.pid).workers) == 2
    explained = tmp_path / "explained"
    pasture("explain", "--json", explained, server.pid)
    entry = read_scoreboard(server.pid).entries[json.loads(explained.read_text())["worker"]]
    assert entry.role == "worker" and server.stop() in (0, 30)
