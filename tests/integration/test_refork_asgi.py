"""Reforks with workers for ASGI: each loop is ended before its process becomes a mold."""

import contextlib
import http.client
import json
import os
import signal
import threading
import urllib.request
from collections import Counter

import pytest
from generations import (
    CLIENTS,
    REFORKED,
    assert_ends_without_a_trace,
    at_any_price,
    load,
    refork,
    roles,
    serve_until,
    wait_for_roles,
)
from running import TIMEOUT_S

pytest.importorskip("uvicorn")

pytestmark = pytest.mark.once

UVICORN = "uvicorn.workers.UvicornWorker"
KINDS = {
    "gunicorn": ("asgi", "uvloop"),
    "uvicorn, uvloop": (UVICORN, "uvloop"),
    "uvicorn, asyncio": ("uvicorn.workers.UvicornH11Worker", "asyncio.unix_events"),
}
TIMES = ("--timeout", "2", "--graceful-timeout", "1")


@pytest.fixture
def start(serve, tmp_path):
    """A server with workers for ASGI that reforks at any price."""

    def start(*args, refork="6", kind=UVICORN, env=None, workers=2):
        pytest.importorskip("uvloop")
        return serve(
            *("-k", kind, *(args or ("--graceful-timeout", "10"))),
            options=("--refork", refork, "--accept", "listeners"),
            app="refork_asgi_app:app",
            env={**at_any_price(tmp_path), **(env or {})},
            workers=workers,
        )

    return start


@pytest.mark.parametrize("name", KINDS)
def test_each_generation_starts_the_application_anew_on_a_loop_of_its_own(start, tmp_path, name):
    kind, loop = KINDS[name]
    # No worker has served so many before each has grown, even if one answers all.
    server = start("--pid", str(tmp_path / "pid"), kind=kind, refork="24,60,1000")
    load(server, CLIENTS, "/executor")
    load(server, CLIENTS, "/task")
    ancestors = []
    for generation in (1, 2):
        load(server, 2 * CLIENTS, "/lock")
        refork(server, generation, path="/grow")
        wait_for_roles(server, ("mold", generation), *[("worker", generation)] * 2)
        [mold] = [pid for pid, (role, _) in roles(server).items() if role == "mold"]
        ancestors.append(mold)
        answer = server.get("/who")
        assert answer["life"] == [*ancestors, answer["pid"]]
        assert answer["cache"] == 20_000 and answer["loop"] == loop
        assert answer["parent"] == server.process.pid
        assert f"lifespan ended in {mold}\n" in server.log
    server.send(signal.SIGTTIN)
    wait_for_roles(server, ("mold", 2), *[("worker", 2)] * 3)
    server.send(signal.SIGTTOU)
    wait_for_roles(server, ("mold", 2), *[("worker", 2)] * 2)
    server.send(signal.SIGUSR1)
    victim = next(pid for pid, (role, _) in roles(server).items() if role == "worker")
    os.kill(victim, signal.SIGKILL)
    server.wait_for(lambda: victim not in roles(server), "the end of a worker")
    wait_for_roles(server, ("mold", 2), *[("worker", 2)] * 2)
    os.kill(ancestors[-1], signal.SIGKILL)
    server.wait_until_it_logs("mold of generation 2 lost")
    assert load(server, CLIENTS)
    before = set(server.workers())
    server.send(signal.SIGHUP)
    server.wait_for(lambda: not before & set(server.workers()), "the end of the old workers")
    wait_for_roles(server, ("mold", 0), *[("worker", 0)] * 2)
    assert "warm-up: " not in server.log and server.get("/who")["cache"] == 0
    assert "Traceback" not in server.log and "never awaited" not in server.log
    assert_ends_without_a_trace(server)


@pytest.mark.parametrize("name", ["uvicorn, uvloop", "uvicorn, asyncio"])
def test_every_request_is_served_exactly_once_through_the_generations(start, tmp_path, name):
    server = start(refork="40,60", kind=KINDS[name][0], workers=3)
    answered = [json.loads(answer)["id"] for answer in serve_until(server, 2)]
    served = Counter(line.split()[0] for line in (tmp_path / "served").read_text().splitlines())
    assert f"{REFORKED}2" in server.log
    assert len(answered) > 600 and set(served.values()) == {1}
    assert sorted(answered) == sorted(served)
    assert_ends_without_a_trace(server)


def test_what_is_under_way_when_a_worker_becomes_a_mold_is_finished_or_reported(start):
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    server = start(refork="6,1000", workers=1)
    chunks = []

    def stream():
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/stream?3") as answer:
            chunks.extend(answer.read().decode().split())

    client = threading.Thread(target=stream)
    client.start()
    with connect(f"ws://127.0.0.1:{server.port}/ws") as socket:
        socket.send("hello")
        first, _ = socket.recv().split()
        server.wait_for(lambda: load(server, CLIENTS) and REFORKED in server.log, "generation 1")
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv()
        assert closed.value.rcvd.code == 1012  # a restart of the service: connect again
    client.join()
    assert chunks == [*map(str, range(30)), "end"]
    assert int(first) == mold_of_one(server)
    assert_ends_without_a_trace(server)


@pytest.mark.parametrize("kind", [UVICORN, "asgi"])
def test_term_waits_for_the_last_request_of_a_worker_on_its_way_to_a_mold(start, kind):
    server = start(kind=kind, refork="3,1000", workers=1)
    for _ in range(3):
        server.get("/who")
    answers = []
    client = threading.Thread(target=lambda: answers.append(server.get("/sleep?2.5")))
    client.start()
    slow = server.workers()
    server.wait_until_it_logs("is to become the mold")
    assert server.stop() == 0
    client.join()
    assert answers[0]["pid"] in slow and server.members() == ()


def mold_of_one(server):
    wait_for_roles(server, ("mold", 1), ("worker", 1))
    return next(pid for pid, (role, _) in roles(server).items() if role == "mold")


def test_at_hup_uvicorns_workers_finish_what_takes_longer_than_the_graceful_timeout(start):
    server = start("--graceful-timeout", "1", refork="1000")
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/stream?5") as answer:
        answer.read(2)
        server.send(signal.SIGHUP)
        assert answer.read().decode().split()[-1] == "end"
    assert_ends_without_a_trace(server)


def test_a_response_without_an_end_does_not_keep_a_worker_from_becoming_a_mold(start):
    server = start(*TIMES, refork="6,1000", workers=1)
    ended = threading.Event()

    def stream():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/stream?600") as answer:
                answer.read()
        except (OSError, http.client.HTTPException):
            ended.set()

    threading.Thread(target=stream).start()
    refork(server, 1)
    assert ended.wait(TIMEOUT_S)
    assert_ends_without_a_trace(server)


def test_the_thread_of_synchronous_code_ends_with_its_connection_and_starts_again(start):
    pytest.importorskip("asgiref.sync")
    server = start(kind="asgi", refork="9,18")
    for generation in (1, 2):
        refork(server, generation, path="/synchronous")
        assert load(server, 6, "/synchronous")
    assert "failed" not in server.log
    assert_ends_without_a_trace(server)


OBSTACLES = {
    "/thread": "thread exporter does not survive a fork",
    "/connect": "an object of asyncio.streams.StreamReader, which has kept",
    "/keep_loop": "an object of refork_asgi_app.Session, which has kept the worker's event loop,",
    "/stubborn_task": "its worker does not end: the task stubborn()",
    "/busy_executor": "its worker does not end: ",
}


@pytest.mark.parametrize("path", OBSTACLES)
def test_what_does_not_cross_a_fork_is_named_and_the_server_works_on(start, path):
    server = start(*TIMES, refork="9")
    load(server, 12, path)
    load(server, 12)
    server.wait_until_it_logs("refork to generation 1 failed")
    assert OBSTACLES[path] in server.log
    server.wait_for(
        lambda: Counter(roles(server).values()) == {("mold", 0): 1, ("worker", 0): 2},
        "generation 0",
    )
    assert load(server, 30)
    assert server.stop() == 0


def test_a_lifespan_that_does_not_end_or_start_is_reported_and_the_server_works_on(start, tmp_path):
    server = start(*TIMES, refork="6")
    (tmp_path / "mood").write_text("hangs")
    load(server, 24)
    server.wait_until_it_logs("its worker does not end: the application's lifespan")
    (tmp_path / "mood").write_text("does not start")
    server.wait_for(
        lambda: load(server, 6) and "refork to generation 2 failed" in server.log, "the second try"
    )
    assert "its first worker ended before it had proven itself" in server.log
    wait_for_roles(server, ("mold", 0), ("worker", 0), ("worker", 0))
    assert load(server, 30)
    (tmp_path / "mood").write_text("")
    assert_ends_without_a_trace(server)


def test_a_worker_of_uvicorn_that_has_passed_its_limit_of_memory_is_replaced(serve):
    server = serve(
        *("-k", UVICORN),
        options=("--max-uss", "1MiB"),
        app="refork_asgi_app:app",
    )
    pids = set()

    def ask():
        # Without reforks uvicorn drops connections that it has not read from when it ends.
        with contextlib.suppress(OSError):
            pids.add(server.get("/who")["pid"])
        return len(pids) > 3

    def is_at_rest():
        recycled = server.log.count("recycling worker")
        started = server.log.count("Application startup complete")
        return recycled >= len(pids) and started == 2 + recycled

    server.wait_for(ask, "new workers")
    server.wait_for(is_at_rest, "a worker in the place of each that answered")
    assert_ends_without_a_trace(server)
