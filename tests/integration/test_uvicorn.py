"""uvicorn's workers, forked from a sealed parent: the real uvicorn and FastAPI."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from running import TIMEOUT_S, Running, completed, environment, free_port, listens

from pasture.log_lines import WARM_UP_END, find
from pasture.scoreboard.reader import read_scoreboard

pytest.importorskip("uvicorn")

PROGRAMS = Path(__file__).parent.parent / "programs"
SEALED = "pasture: policy seal on "
STARTED = "Application startup complete."
RUN = (sys.executable, "-m", "pasture", "run")


class Uvicorn(Running):
    """A uvicorn that was started by a test."""

    def __init__(self, command, directory, port, env):
        super().__init__(command, directory / f"uvicorn-{port}.log", env)
        self.port = port

    def get(self, path="/"):
        return ask(http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S), path)

    def ask_each(self, count, path="/"):
        """An answer of each worker, by pid; they share a socket, and some are asked often."""
        answers = {}

        def all_answered():
            answer = self.get(path)
            answers[answer["pid"]] = answer
            return len(answers) >= count

        self.wait_for(all_answered, f"an answer of each of {count} workers")
        return answers

    def wait_for_two_workers_not_of(self, before):
        self.wait_for(
            lambda: len(self.children()) == 2 and not before & self.children(), "new workers"
        )

    def wait_until_it_logs(self, text, times=1):
        self.wait_for(lambda: self.log.count(text) >= times, f"logging {text!r}")

    def wait_until_it_listens(self):
        """uvicorn logs the start of an application before its port takes connections."""
        self.wait_for(lambda: listens(self.port), "a port that takes connections")


def ask(connection, path="/"):
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == 200, body
    return json.loads(body)


def connected(server, path):
    """A client of a UNIX socket, from the moment at which it takes connections."""
    client = socket.socket(socket.AF_UNIX)
    server.wait_for(lambda: client.connect_ex(str(path)) == 0, "a socket that takes connections")
    return client


@pytest.fixture
def serve(tmp_path):
    servers = []

    def start(
        *args,
        options=(),
        begin=None,
        env=None,
        workers=2,
        app="uvicorn_app:app",
        ready=True,
    ):
        port = free_port()
        begin = begin or [*RUN, *options, "uvicorn"]
        command = [*begin, app, "--port", str(port), "--workers", str(workers), *args]
        server = started(command, port, env)
        if ready:
            server.wait_until_it_logs(STARTED, workers)
            if not {"--uds", "--fd"}.intersection(args):
                server.wait_until_it_listens()
        return server

    def started(command, port, env=None):
        variables = environment({"PYTHONPATH": str(PROGRAMS), **(env or {})})
        servers.append(Uvicorn(command, tmp_path, port, variables))
        return servers[-1]

    start.command = started
    yield start
    for server in servers:
        print(f"--- log of uvicorn\n{server.log}")
        server.destroy()


@pytest.mark.interpreter
@pytest.mark.immortality
def test_workers_share_what_was_loaded_once_and_each_has_a_lifespan_of_its_own(serve):
    spawned = serve(begin=(sys.executable, "-m", "uvicorn"))
    plain = min(answer["private"] for answer in spawned.ask_each(2).values())
    spawned.stop()
    server = serve("--root-path", "/api", options=("--warm", "/warm"))
    answers = server.ask_each(2, "/a")
    for pid, answer in answers.items():
        assert answer["loaded_by"] == server.pid == answer["parent"]
        assert answer["started"] == [pid]  # the warm-up has left that to the workers
        assert answer["state"] == pid
        assert answer["warm"] and answer["path"] == "/api/a" and answer["root_path"] == "/api"
        assert answer["private"] < plain / 4
    assert "warm-up: GET /warm" in server.log
    assert find(WARM_UP_END, server.log) == ("1", "0")
    assert server.log.count(SEALED) == 1 and "sealed," in server.log
    assert server.stop() == 0
    assert all(f"lifespan ended in {pid}" in server.log for pid in answers)


def test_a_worker_that_is_killed_is_replaced_and_signals_do_what_they_do_in_uvicorn(serve):
    server = serve()
    first = set(server.ask_each(2))
    killed = min(first)
    os.kill(killed, signal.SIGKILL)
    server.wait_for(lambda: killed not in server.children() and len(server.children()) == 2, "one")
    server.wait_until_it_logs(STARTED, 3)
    server.send_signal(signal.SIGTTIN)
    server.wait_for(lambda: len(server.children()) == 3, "a third worker")
    assert len(server.ask_each(3)) == 3
    server.send_signal(signal.SIGTTOU)
    server.wait_for(lambda: len(server.children()) == 2, "two workers")
    before = server.children()
    server.send_signal(signal.SIGHUP)
    server.wait_for_two_workers_not_of(before)
    answers = server.ask_each(2)
    assert all(answer["loaded_by"] == server.pid for answer in answers.values())
    assert server.log.count(SEALED) == 1
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(server.get, "/slow")
        server.wait_until_it_logs("slow begins")
        server.send_signal(signal.SIGTERM)
        assert slow.result()["path"] == "/slow"
    assert server.wait_for_end() == 0
    assert "Traceback" not in server.log


@pytest.mark.once
def test_the_health_check_asks_the_server_that_was_started(serve):
    """uvicorn 0.54 makes two where both threads of a worker are the first to want it."""
    server = serve(env={"HERD_SLOW_SERVER": "1"})
    before = server.children()
    server.send_signal(signal.SIGHUP)
    server.wait_for_two_workers_not_of(before)
    server.ask_each(2)
    assert "not ready" not in server.log


@pytest.mark.once
def test_a_worker_that_is_asked_to_end_right_after_its_fork_ends(serve):
    server = serve()
    server.ask_each(2)
    for turn in range(1, 4):
        server.send_signal(signal.SIGTTIN)
        server.send_signal(signal.SIGTTOU)
        server.wait_until_it_logs("decreasing number", turn)
    # uvicorn's parent waits for each of their ends, and would do nothing else.
    assert server.get()["loaded_by"] == server.pid
    assert server.stop() == 0


@pytest.mark.once
def test_a_worker_inherits_no_pipes_of_others_and_its_stdin_is_the_server_s(serve):
    server = serve(workers=4)
    pipes = {answer["pipes"] for answer in server.ask_each(4).values()}
    stdins = {answer["stdin"] for answer in server.ask_each(4).values()}
    assert max(pipes) - min(pipes) <= 1  # one may have a second connection
    assert stdins == {Path(f"/proc/{server.pid}/fd/0").stat().st_ino}


@pytest.mark.once
def test_what_the_application_set_at_its_import_holds_in_each_worker(serve, tmp_path):
    config = tmp_path / "logging.json"
    console = {"class": "logging.StreamHandler"}
    access = {"handlers": ["console"], "level": "INFO"}
    config.write_text(
        json.dumps(
            {
                "version": 1,
                "disable_existing_loggers": True,
                "handlers": {"console": console},
                "loggers": {"uvicorn.access": access, "uvicorn.error": access},
            }
        )
    )
    server = serve("--log-config", str(config))
    pid = server.get()["pid"]
    server.wait_until_it_logs("herd serves /")
    os.kill(pid, signal.SIGUSR1)
    server.wait_until_it_logs(f"usr1 in {pid}")
    server.send_signal(signal.SIGUSR1)  # uvicorn's parent takes it, and does nothing
    os.kill(pid, signal.SIGINT)  # after which uvicorn's worker does not die of the signal
    server.wait_until_it_logs(f"atexit in {pid}")
    assert SEALED in server.log
    assert "GET /" not in server.log  # the application disabled uvicorn's own lines
    assert f"usr1 in {server.pid}" not in server.log
    assert server.stop() == 0


@pytest.mark.once
def test_a_handler_in_c_that_the_import_has_set_is_the_workers(serve, tmp_path):
    named = {"HOLDS": "registered traceback", "HELD_IN": str(tmp_path)}
    assert serve(app="holding_app:asgi", env=named).get()["there"]


def test_a_configuration_of_logging_in_the_application_leaves_the_parents_log_on(serve):
    server = serve(options=("--warm", "/"), env={"HERD_LOGGING": "1"}, ready=False)
    server.wait_until_it_logs("pasture: probe: 1 request answered")
    server.wait_for(lambda: listens(server.port), "an answer")
    server.ask_each(2)
    assert SEALED in server.log
    assert STARTED not in server.log  # workers have the application's word, as without pasture
    assert server.stop() == 0
    assert "Stopping parent process" in server.log


@pytest.mark.once
def test_requests_are_counted_and_a_worker_past_its_limit_is_replaced(serve):
    server = serve(options=("--max-uss", "24M"))
    server.ask_each(2)
    for _ in range(5):
        server.get()

    def counted():
        return sum(entry.requests for entry in read_scoreboard(server.pid).entries.values())

    # A worker counts and looks at its memory after the response.
    server.wait_for(lambda: counted() >= 7, "counting 7 requests")

    def passes_its_limit():
        # A worker of uvicorn that ends resets connections that it has accepted and not read.
        with contextlib.suppress(ConnectionResetError):
            server.get("/grow")
        return "recycling worker " in server.log

    server.wait_for(passes_its_limit, "a limit")
    pid = re.search(r"recycling worker (\d+)", server.log)[1]
    server.wait_for(lambda: f"lifespan ended in {pid}" in server.log, "a graceful end")
    assert server.stop() == 0


@pytest.mark.once
def test_a_unix_socket_is_served_and_removed(serve, tmp_path):
    path = tmp_path / "socket"
    server = serve("--uds", str(path))
    connection = http.client.HTTPConnection("localhost")
    connection.sock = connected(server, path)
    assert ask(connection)["loaded_by"] == server.pid
    assert server.stop(signal.SIGINT) == 0
    assert not path.exists()


@pytest.mark.once
def test_an_inherited_descriptor_is_served(serve, tmp_path):
    path = tmp_path / "socket"
    code = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.dup2(s.fileno(), 9)\n"
        "os.execv(sys.argv[2], sys.argv[2:])"
    )
    server = serve("--fd", "9", begin=(sys.executable, "-c", code, str(path), *RUN, "uvicorn"))
    connection = http.client.HTTPConnection("localhost")
    connection.sock = connected(server, path)
    assert ask(connection)["loaded_by"] == server.pid
    assert server.stop() == 0


@pytest.mark.once
def test_an_end_while_the_application_loads_is_clean(serve, tmp_path):
    path = tmp_path / "socket"
    server = serve("--uds", str(path), env={"HERD_LOAD_S": "60"}, ready=False)
    server.wait_until_it_logs("loading")
    assert server.stop() == 0
    assert not path.exists() and "Traceback" not in server.log


@pytest.mark.once
@pytest.mark.skipif(shutil.which("openssl") is None, reason="no program makes a certificate")
def test_hup_brings_a_renewed_certificate_into_service(serve, tmp_path):
    key, certificate = tmp_path / "key", tmp_path / "certificate"

    def renew(name):
        words = f"req -x509 -newkey rsa:2048 -nodes -subj /CN={name} -keyout {key} -out"
        subprocess.run(["openssl", *words.split(), certificate], check=True, capture_output=True)

    def served():
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            context = ssl._create_unverified_context()
            with context.wrap_socket(plain) as secure:
                return ssl.DER_cert_to_PEM_cert(secure.getpeercert(True)).split()

    renew("first")
    server = serve("--ssl-keyfile", str(key), "--ssl-certfile", str(certificate))
    assert served() == certificate.read_text().split()
    renew("second")
    server.send_signal(signal.SIGHUP)
    server.wait_until_it_logs(STARTED, 4)
    server.wait_for(lambda: len(server.children()) == 2, "the end of the old workers")
    assert served() == certificate.read_text().split()
    assert server.stop() == 0


@pytest.mark.once
@pytest.mark.parametrize(
    "words, says",
    [
        (("--workers", "4", "--reload"), "--reload"),
        (("--workers", "1"), "without --workers"),
        ((), "without --workers"),
    ],
)
def test_what_forks_no_workers_is_refused(words, says):
    done = finished("uvicorn", "uvicorn_app:app", "--port", str(free_port()), *words)
    assert done.returncode == 2 and says in done.stderr and "hint: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.once
@pytest.mark.parametrize("app", ["uvicorn_app:nothing", "no_such_module:app"])
def test_an_application_that_cannot_be_loaded_is_an_error_and_no_worker_is_forked(app):
    done = finished("uvicorn", app, "--port", str(free_port()), "--workers", "2")
    assert done.returncode == 5 and f"error: {app} cannot be" in done.stderr
    assert "Started server process" not in done.stderr
    assert "multiprocess.py" not in done.stderr


@pytest.mark.once
def test_a_lifespan_that_fails_stops_the_server_as_it_does_in_uvicorn(serve):
    server = serve(env={"HERD_FAILS": "1"}, ready=False)
    assert server.wait_for_end() == 0
    assert "failed to start, stopping the parent process" in server.log


@pytest.mark.once
def test_a_strict_server_ends_rather_than_fork_unsealed(serve):
    server = serve(options=("--strict",), env={"HERD_THREAD": "1"}, ready=False)
    assert server.wait_for_end() == 12
    assert "error: " in server.log and "Traceback" not in server.log


@pytest.mark.once
def test_the_import_is_the_switch_in_a_program_that_runs_uvicorn_itself(serve):
    port = free_port()
    program = [sys.executable, str(PROGRAMS / "runs_uvicorn.py"), str(port)]
    server = serve.command([*program, "2"], port)
    server.wait_until_it_listens()
    assert all(a["loaded_by"] == server.pid for a in server.ask_each(2).values())
    assert server.stop() == 0
    port = free_port()
    single = serve.command([*program[:-1], str(port), "1"], port)
    single.wait_until_it_listens()
    assert single.get()["pid"] == single.pid
    assert "not sealed: uvicorn without --workers" in single.log


@pytest.mark.once
@pytest.mark.parametrize("command", ["uvicorn", "fastapi"])
def test_under_the_variable_a_server_that_reloads_serves_as_without(serve, command):
    pytest.importorskip("fastapi_cli")
    port = free_port()
    words = {
        "uvicorn": ["-m", "uvicorn", "uvicorn_app:app", "--reload", "--reload-dir", str(PROGRAMS)],
        "fastapi": ["-m", "fastapi", "dev", str(PROGRAMS / "fastapi_app.py")],
    }[command]
    env = {"PASTURE": "seal"}
    server = serve.command([sys.executable, *words, "--port", str(port)], port, env)
    server.wait_until_it_logs(STARTED)
    server.wait_until_it_listens()
    assert "pid" in server.get()
    assert "not sealed: with --reload" in server.log
    assert "Traceback" not in server.log
    assert server.stop() == 0


@pytest.mark.once
def test_fastapi_run_is_served_by_workers_of_a_sealed_parent(serve):
    pytest.importorskip("fastapi_cli")
    begin = (*RUN, "--warm", "/", "fastapi", "run")
    server = serve(begin=begin, app=str(PROGRAMS / "fastapi_app.py"))
    answers = server.ask_each(2)
    assert all(answer["loaded_by"] == server.pid for answer in answers.values())
    assert server.log.count(SEALED) == 1 and "sealed," in server.log
    assert server.stop() == 0
    done = finished("fastapi", "dev", str(PROGRAMS / "fastapi_app.py"))
    assert done.returncode == 2 and "leave --reload out" in done.stderr


def finished(*words):
    return completed([*RUN, *words], env=environment({"PYTHONPATH": str(PROGRAMS)}))


@pytest.mark.immortality
def test_a_lifespan_that_is_run_once_is_shared_by_all_workers_and_ended_by_the_parent(serve):
    loads = {"HERD_LOADS_IN_LIFESPAN": "1"}
    each = serve(env=loads)
    own = min(answer["private"] for answer in each.ask_each(2).values())
    each.stop()
    server = serve(env=loads, options=("--lifespan", "once", "--warm", "/warm"))
    answers = server.ask_each(2)
    killed = min(answers)
    os.kill(killed, signal.SIGKILL)
    server.wait_for(lambda: killed not in server.children() and len(server.children()) == 2, "one")
    for answer in (*answers.values(), *server.ask_each(2).values()):
        assert answer["started"] == [server.pid] and answer["state"] == server.pid
        assert answer["warm"] and answer["model"] == 288_890
        assert answer["private"] < own / 2
    assert "the application was started once, for all workers" in server.log
    assert server.stop() == 0
    assert server.log.count("lifespan ended in") == 1
    assert f"lifespan ended in {server.pid}" in server.log


def test_a_task_of_the_lifespan_keeps_it_each_workers_own_and_is_named(serve):
    server = serve(env={"HERD_TASK": "1"}, options=("--lifespan", "once"))
    for pid, answer in server.ask_each(2).items():
        assert answer["started"] == [server.pid, pid] and answer["state"] == pid
    assert "lifespan: the task sleep() does not survive a fork" in server.log
    assert f"lifespan ended in {server.pid}" in server.log
    assert SEALED in server.log
    assert server.stop() == 0
    strict = serve(env={"HERD_TASK": "1"}, options=("--lifespan", "once", "--strict"), ready=False)
    assert strict.wait_for_end() == 12
    assert "Traceback" not in strict.log


def test_a_shared_lifespan_that_does_not_end_can_be_interrupted(serve):
    server = serve(env={"HERD_HANGS_AT_END": "1"}, options=("--lifespan", "once"))
    server.send_signal(signal.SIGTERM)
    server.wait_for(lambda: not server.children(), "the end of the workers")
    server.wait_until_it_logs("lifespan ended in")
    server.stop()
    assert "Traceback" not in server.log


def test_fastapis_lifespan_is_run_once(serve, tmp_path):
    pytest.importorskip("fastapi")
    server = serve(app="lifespan_app:app", options=("--lifespan", "once"))
    answers = server.ask_each(2)
    assert {answer["loaded_by"] for answer in answers.values()} == {server.pid}
    assert {answer["squares"] for answer in answers.values()} == {sum(n * n for n in range(1000))}
    assert server.stop() == 0
    assert server.log.count("cleared") == 1
