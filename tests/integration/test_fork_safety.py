"""Closing what must not cross a fork, with the real libraries."""

import sys
import textwrap

import pytest
from running import completed


def run(program, *arguments):
    done = completed([sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)])
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


DJANGO = """
import sys
import django
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]},
        "memory": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    }
)
django.setup()
"""


def test_django_connections_are_closed_and_come_back(tmp_path):
    pytest.importorskip("django")
    out = run(
        DJANGO
        + """
from django.db import connections
import pasture

default, memory = connections["default"], connections["memory"]
for connection in (default, memory):
    connection.cursor().execute("create table kept (x)")
counts, problems = pasture.close_connections()
assert problems == (), problems
memory.cursor().execute("select * from kept")
print(counts["django_connections"], default.connection is None)
default.cursor().execute("select * from kept")
""",
        tmp_path / "database",
    )
    assert out == ["1", "True"]


def test_a_django_that_made_no_connection_makes_none_for_this():
    pytest.importorskip("django")
    out = run(
        DJANGO
        + """
from django.db import connections
import pasture

counts, problems = pasture.close_connections()
print(sorted(counts), problems, connections.all(initialized_only=True))
""",
        "unused",
    )
    assert out == ["[]", "()", "[]"]


def test_sqlalchemy_engines_give_up_their_connections(tmp_path):
    pytest.importorskip("sqlalchemy")
    out = run(
        """
        import sys
        import pasture
        from sqlalchemy import create_engine, text

        file = create_engine(f"sqlite:///{sys.argv[1]}")
        memory = create_engine("sqlite://")
        with file.connect(), memory.begin() as connection:
            connection.execute(text("create table kept (x)"))
        before = file.pool.checkedin()
        counts, problems = pasture.close_connections()
        assert problems == (), problems
        with memory.connect() as connection:
            connection.execute(text("select * from kept"))
        print(before, file.pool.checkedin(), counts["sqlalchemy_engines"])
        """,
        tmp_path / "database",
    )
    assert out == ["1", "0", "1"]


ANSWERS_WITH_THE_PORT = """
import http.server
import os
import threading

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = str(self.client_address[1]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"

def port_of_a_child(ask):
    end, begin = os.pipe()
    if os.fork() == 0:
        os.write(begin, str(ask()).encode())
        os._exit(0)
    os.wait()
    return int(os.read(end, 100))
"""


def asked(program):
    return run(ANSWERS_WITH_THE_PORT + program)


@pytest.mark.interpreter
def test_no_child_has_an_idle_http_connection_of_its_parent():
    pytest.importorskip("requests")
    out = asked("""
import requests, urllib3
import pasture

session, manager = requests.Session(), urllib3.PoolManager()
one_host = urllib3.HTTPConnectionPool("127.0.0.1", server.server_port)
askers = (
    lambda: int(session.get(url).text),
    lambda: int(manager.request("GET", url).data),
    lambda: int(one_host.request("GET", "/").data),
)
first = [ask() for ask in askers]
print([ask() for ask in askers] == first)  # the connections are kept
counts, problems = pasture.close_connections()
print(problems, counts["http_connections"])
after = [ask() for ask in askers]  # opened again after that, and before the fork
ports = [port_of_a_child(ask) for ask in askers for _ in range(2)]
print(set(ports).isdisjoint(first + after), len(set(ports)))
""")
    assert out == ["True", "()", "3", "True", "6"]


@pytest.mark.interpreter
def test_a_request_that_a_thread_is_in_the_middle_of_ends_well():
    pytest.importorskip("urllib3")
    out = asked("""
import urllib3
import pasture

manager = urllib3.PoolManager(maxsize=1, block=True)
answer = manager.request("GET", url, preload_content=False)  # its connection is taken
print(pasture.close_connections()[0].get("http_connections", 0))
print(len(answer.read()) > 0)
answer.release_conn()
print(manager.request("GET", url).status)
""")
    assert out == ["0", "True", "200"]


@pytest.mark.interpreter
def test_a_pool_whose_lock_is_never_free_again_does_not_hold_up_a_fork():
    pytest.importorskip("urllib3")
    out = asked("""
import urllib3
import pasture

manager = urllib3.PoolManager()
pools = [urllib3.HTTPConnectionPool("127.0.0.1", server.server_port) for _ in range(2)]
for pool in pools:
    pool.request("GET", "/")
print(pasture.close_connections()[0]["http_connections"])
for pool in pools:
    pool.request("GET", "/")
def take():
    manager.pools.lock.acquire()
    pools[0].pool.mutex.acquire()
taker = threading.Thread(target=take)
taker.start()
taker.join()
port_of_a_child(os.getpid)
print(pools[1].pool.queue[-1], flush=True)
os._exit(0)  # urllib3 itself would wait for the lock
""")
    assert out == ["2", "None"]


@pytest.mark.interpreter
def test_a_connection_that_a_thread_uses_is_waited_for_and_closed():
    pytest.importorskip("requests")
    out = asked("""
import time
import urllib3
import pasture
from pasture.fork_safety.survey import survey

answer = Handler.do_GET
started = threading.Event()

def slowly(self):
    started.set()
    time.sleep(0.3)
    answer(self)

Handler.do_GET = slowly
manager = urllib3.PoolManager()
asking = threading.Thread(target=manager.request, args=("GET", url))
asking.start()
started.wait()
counts, problems = pasture.close_connections()
asking.join()
named = [str(hazard) for hazard in survey() if f":{server.server_port} " in hazard.what + " "]
print(problems, counts["http_connections"], named)
""")
    assert out == ["()", "1", "[]"]


ANSWERS_AS_REDIS = """
import os
import socketserver
import sys
import threading

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            words = []
            for _ in range(int(line[1:])):
                length = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(length + 2)[:-2])
            port = str(self.client_address[1]).encode()
            asked = words[0].upper() == b"GET"
            self.wfile.write(b"$%d\\r\\n%s\\r\\n" % (len(port), port) if asked else b"+OK\\r\\n")

class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

end, begin = os.pipe()
if (server := os.fork()) == 0:
    listening = Server(("127.0.0.1", 0), Handler)
    os.write(begin, str(listening.server_address[1]).encode())
    listening.serve_forever()
port = int(os.read(end, 100))
"""


def test_pools_of_redis_are_sealed_and_each_child_opens_its_own_connection():
    pytest.importorskip("redis")
    out = run(
        ANSWERS_AS_REDIS
        + """
import signal
import redis
import pasture
from pasture.fork_safety.survey import survey

def ports_of_two_children():
    for _ in range(2):
        if os.fork() == 0:
            ports = [client.get("port").decode() for client in clients]
            # One that goes on to fork, as a mold does, still has what its parent left idle.
            pasture.seal(strict=True)
            os.write(begin, " ".join(ports).encode())
            os._exit(0)
        os.wait()
        yield from os.read(end, 100).decode().split()

try:
    settings = {"port": port, "protocol": 2}
    pools = redis.ConnectionPool(**settings), redis.BlockingConnectionPool(**settings)
    clients = [redis.Redis(connection_pool=pool) for pool in pools]
    own = [client.get("port").decode() for client in clients]
    pasture.seal(strict=True)
    children = list(ports_of_two_children())
    print(len(set(own)), len(set(children)), set(own).isdisjoint(children))
    print([client.get("port").decode() for client in clients] == own)
    listener = redis.Redis(single_connection_client=True, **settings)
    listener.get("port")
    print(len(survey()))  # this one does not look at its process
finally:
    os.kill(server, signal.SIGKILL)
"""
    )
    assert out == ["2", "4", "True", "True", "1"]


def test_new_relics_thread_made_before_the_fork_is_alive_when_a_child_has_started_it():
    out = run(
        """
        import os, sys, threading
        from types import SimpleNamespace
        from pasture.warmup.warmup import warm_up

        stop = threading.Event()
        thread = threading.Thread(target=stop.wait, daemon=True)
        agent = SimpleNamespace(_harvest_thread=thread)
        settings = SimpleNamespace(enabled=True)
        sys.modules["newrelic.agent"] = SimpleNamespace(global_settings=lambda: settings)
        sys.modules["newrelic.core.agent"] = SimpleNamespace(agent_instance=lambda: agent)

        def application(environ, start_response):
            start_response("200 OK", [])
            return []

        warm_up(application, ["/"])
        if os.fork() == 0:
            thread.start()
            print(thread.is_alive())
            stop.set()
            thread.join()
            print(thread.is_alive(), flush=True)
            os._exit(0)
        os.wait()
        """
    )
    assert out == ["True", "False"]
