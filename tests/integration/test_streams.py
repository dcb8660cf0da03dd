"""A connection that was used at an application's import: no worker reads the answers of another."""

import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from time import sleep
from urllib.request import urlopen

import pytest
from running import TIMEOUT_S

ROUNDS, CLIENTS = 40, 6


class Echo(BaseHTTPRequestHandler):
    """Answers with the path, some time later, and keeps connections open."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        sleep(0.004)
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def backend():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def answers(server):
    """How many requests of several clients got their own answer, another one, or an error."""
    number = count()

    def ask_in_turn(_):
        found = Counter()
        for _ in range(ROUNDS):
            path = f"/{next(number)}"
            try:
                with urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=TIMEOUT_S) as answer:
                    found["own" if answer.read().decode() == path else "foreign"] += 1
            except OSError:
                found["error"] += 1
        return found

    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(ask_in_turn, range(CLIENTS)), Counter())


@pytest.mark.interpreter
def test_no_worker_of_gunicorn_reads_the_answers_of_another(serve, backend):
    server = serve(app="connected_app:app", workers=4, env={"CONNECTED_TO": backend})
    found = answers(server)
    assert found["foreign"] == 0
    assert found["own"] == ROUNDS * CLIENTS - found["error"]
    assert found["error"] <= 4, "the client in each worker finds out once"


def test_a_hup_loads_an_application_whose_connections_are_not_shared_either(serve, backend):
    server = serve(app="connected_app:app", workers=4, env={"CONNECTED_TO": backend})
    before = set(server.workers())
    server.send(signal.SIGHUP)
    server.wait_for(lambda: not before & set(server.workers()), "the end of all workers")
    server.wait_for(lambda: len(server.workers()) == 4, "four new workers")
    assert answers(server)["foreign"] == 0


def test_a_connection_that_gunicorn_itself_preloads_stays_as_gunicorn_has_it(serve, backend):
    server = serve("--preload", app="connected_app:app", workers=1, env={"CONNECTED_TO": backend})
    assert answers(server) == {"own": ROUNDS * CLIENTS}
