"""The load of a list of URLs, against servers that keep connections, close them, or say nothing."""

import contextlib
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psutil
import pytest
from running import TIMEOUT_S, free_port

from pasture.warmup.requests import Request
from pasture_tools.trial.client.closed_loop import ClosedLoop, prepare
from pasture_tools.trial.client.record import Record
from pasture_tools.trial.load import read_progress, read_result, sending
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.server import RunFiles

pytestmark = pytest.mark.once

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers each request of a connection by a function, which returns None to close it.

    Attributes:
        seen: heads of requests, in the order in which they came.
        connections: how many there were.
    """

    def __init__(self, answer):
        self.seen, self.connections = [], 0
        self._answer = answer
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        data = b""
        with connection, contextlib.suppress(OSError):
            while part := connection.recv(65536):
                data += part
                while (end := data.find(b"\r\n\r\n")) >= 0:
                    head, data = data[: end + 4], data[end + 4 :]
                    with self._lock:
                        self.seen.append(head)
                    answer = self._answer(head)
                    if answer is None:
                        return
                    connection.sendall(answer)
                    if b"\r\nX-Then: close" in answer:
                        return

    @property
    def lines(self):
        return [head.partition(b" HTTP")[0].decode() for head in self.seen]


@pytest.fixture
def serve():
    with contextlib.ExitStack() as servers:

        def start(answer):
            server = Server(answer)
            servers.callback(server.close)
            return server

        yield start


@pytest.fixture
def send(tmp_path):
    """Send a load in this process; what its record says."""

    def send(port, *lines, requests, users=2, timeout_s=TIMEOUT_S, headers=()):
        walk = [prepare(*line.split(), headers, f"127.0.0.1:{port}") for line in lines]
        record = Record(str(tmp_path / "progress"), lambda media_type, body: media_type)
        ClosedLoop(
            walk,
            ("127.0.0.1", port),
            requests=requests,
            users=users,
            timeout_s=timeout_s,
            record=record,
        ).run()
        found = record.as_dict()
        assert found["requests"] == len(found["latencies_ms"]) == requests
        return found["answers"]

    return send


def statuses(answers):
    return {url: dict(found["statuses"]) for url, found in answers.items()}


def test_the_list_is_walked_in_its_order_over_one_connection_a_user(serve, send):
    server = serve(lambda head: OK)

    answers = send(server.port, "GET /a", "GET /b", "GET /c", requests=100, users=1)

    assert server.lines == (["GET /a", "GET /b", "GET /c"] * 34)[:100]
    assert server.connections == 1
    assert statuses(answers) == {"GET /a": {200: 34}, "GET /b": {200: 33}, "GET /c": {200: 33}}


def test_each_user_has_one_request_under_way(serve, send):
    at_once, most, lock = 0, 0, threading.Lock()

    def answer(head):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.002)
        with lock:
            at_once -= 1
        return OK

    server = serve(answer)
    send(server.port, "GET /", requests=200, users=5)

    assert most == 5 and server.connections == 5 and len(server.seen) == 200


def test_more_users_than_requests_send_no_more_than_these(serve, send):
    server = serve(lambda head: OK)
    send(server.port, "GET /", requests=3, users=50)
    assert len(server.seen) == 3


def test_a_connection_that_was_closed_without_a_word_costs_no_request(serve, send):
    closing = OK.replace(b"\r\n\r\n", b"\r\nX-Then: close\r\n\r\n")
    server = serve(lambda head: closing)

    answers = send(server.port, "GET /", "POST /", requests=60, users=3)

    assert statuses(answers) == {"GET /": {200: 30}, "POST /": {200: 30}}
    assert Counter(server.lines) == {"GET /": 30, "POST /": 30}


def test_a_request_that_is_never_answered_is_not_sent_again(serve, send):
    server = serve(lambda head: None if b" /closed" in head else OK)

    answers = send(server.port, "POST /closed", "GET /", requests=20, users=1)

    assert statuses(answers) == {"POST /closed": {0: 10}, "GET /": {200: 10}}
    assert "without an answer" in answers["POST /closed"]["error"]
    assert Counter(server.lines) == {"POST /closed": 10, "GET /": 10}


def test_an_answer_that_is_cut_off_is_none(serve, send):
    server = serve(
        lambda head: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX-Then: close\r\n\r\nhalf"
    )
    (found,) = send(server.port, "GET /", requests=4).values()
    assert found["statuses"] == {0: 4} and "before the end" in found["error"]


def test_an_answer_that_drips_passes_its_limit_of_time_and_the_next_is_asked_for(serve, send):
    ended = threading.Event()

    def answer(head):
        if b" /slow" in head:
            ended.wait(TIMEOUT_S)
            return None
        return OK

    server = serve(answer)
    answers = send(server.port, "GET /slow", "GET /", requests=4, users=1, timeout_s=0.5)
    ended.set()

    assert answers["GET /slow"]["timeouts"] == 2 and not answers["GET /slow"]["statuses"]
    assert statuses(answers)["GET /"] == {200: 2}


def test_a_port_without_a_server_ends_the_load(send):
    (found,) = send(free_port(), "GET /", requests=50, users=5).values()
    assert found["statuses"] == {0: 50} and found["error"] == "Connection refused"


def test_a_user_keeps_its_cookies_unless_the_list_names_some(serve, send):
    def answer(head):
        return OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: session=a; Path=/; Secure\r\n\r\n")

    server = serve(answer)
    send(server.port, "GET /", requests=4, users=2)
    assert [b"Cookie: session=a\r\n" in head for head in server.seen].count(True) == 2

    server = serve(answer)
    send(server.port, "GET /", requests=4, users=2, headers=[("Cookie", "mine=b")])
    assert all(head.count(b"Cookie: ") == 1 and b"mine=b" in head for head in server.seen)


def test_a_large_body_is_read_whole(serve, send):
    body = bytes(range(256)) * 4000
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    server = serve(lambda _: head + body)
    (found,) = send(server.port, "GET /", requests=6).values()
    assert found["statuses"] == {200: 6} and len(found["bodies"]) == 1


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "11")
        self.end_headers()
        self.wfile.write(b"<p>page</p>")

    def log_message(self, *_):
        pass


@pytest.fixture
def page():
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def wait_until(condition):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_load_is_a_process_of_its_own_that_no_module_of_the_folder_disturbs(
    page, tmp_path, monkeypatch
):
    for name in ("json", "socket", "record", "answer", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the folder')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    plan = TrialPlan(app="a:b", urls=(Request("GET", "/"), Request("GET", "/b")), workers=2)
    files = RunFiles(tmp_path, tmp_path / "log")

    with sending(plan, 31, page, files) as has_ended:
        wait_until(has_ended)

    result = read_result(files)
    assert files.log.read_text() == ""
    assert result.figures.requests == 31 and result.figures.failures == 0
    assert set(result.paths) == {"GET /", "GET /b"}
    assert dict(result.answers["GET /b"].statuses) == {200: 15}
    assert list(result.answers["GET /"].skeletons.values()) == [16]
    progress = read_progress(files)
    assert progress is not None and (progress.done, progress.answered) == (31, 31)


def test_a_block_that_is_left_early_leaves_no_load_behind(page, tmp_path):
    files = RunFiles(tmp_path, tmp_path / "log")
    load = sending(TrialPlan(app="a:b"), 10**9, page, files)
    with pytest.raises(KeyboardInterrupt), load as has_ended:
        wait_until(lambda: files.progress.exists() and files.progress.read_text())
        assert not has_ended()
        raise KeyboardInterrupt
    words = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not any(str(files.load_settings) in line for line in words)
