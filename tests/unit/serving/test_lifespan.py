"""One start of an ASGI application for all workers: what may cross the fork, and what may not."""

import asyncio
import contextlib
import logging
import os
import socket
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from pasture.errors import AppImportFailed, SealFailed
from pasture.serving.lifespan import SharedLifespan

pytestmark = pytest.mark.interpreter

Start = Callable[[dict[str, Any]], Awaitable[object]]


class Application:
    """Whose start is a function of the state."""

    def __init__(self, start: Start) -> None:
        self.events: list[str] = []
        self._start = start

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"
        assert (await receive())["type"] == "lifespan.startup"
        await self._start(scope["state"])
        self.events.append(f"started in {os.getpid()}")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.events.append(f"ended in {os.getpid()}")
        await send({"type": "lifespan.shutdown.complete"})


kept: list[Any] = []


async def serve(application: Any) -> dict[str, Any]:
    """The state of a worker that starts and ends."""
    state: dict[str, Any] = {}
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    answers: list[str] = []

    async def receive() -> dict[str, str]:
        return next(messages)

    async def send(message: dict[str, str]) -> None:
        answers.append(message["type"])

    await application({"type": "lifespan", "state": state}, receive, send)
    assert answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    return state


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    for one in kept:
        close = getattr(one, "close", None)
        if close is not None:
            with contextlib.suppress(RuntimeError):  # that of a stream whose loop is closed
                close()
    kept.clear()


async def load(state: dict[str, Any]) -> None:
    state["model"] = await asyncio.get_running_loop().run_in_executor(None, lambda: [1, 2, 3])
    await asyncio.wait_for(asyncio.to_thread(sum, [1]), 60)
    state["lock"] = asyncio.Lock()


def test_the_workers_adopt_the_state_and_the_application_ends_once() -> None:
    application = Application(load)
    lifespan = SharedLifespan(application)
    lifespan.start()
    lifespan.share(strict=True)
    assert asyncio.run(serve(lifespan.wrap(application)))["model"] == [1, 2, 3]
    assert application.events == [f"started in {os.getpid()}"]
    lifespan.end()
    lifespan.end()
    assert application.events[1:] == [f"ended in {os.getpid()}"]


async def task(state: dict[str, Any]) -> None:
    async def refresh() -> None:
        await asyncio.sleep(3600)

    kept.append(asyncio.get_running_loop().create_task(refresh()))
    await asyncio.sleep(0)


async def timer(state: dict[str, Any]) -> None:
    asyncio.get_running_loop().call_later(3600, kept.clear)


async def connection(state: dict[str, Any]) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    kept.append(listening)
    kept.extend(await asyncio.open_connection(*listening.getsockname()))


async def blocking_connection(state: dict[str, Any]) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    kept.extend((listening, socket.create_connection(listening.getsockname())))


async def server(state: dict[str, Any]) -> None:
    kept.append(await asyncio.start_server(lambda *_: None, "127.0.0.1", 0))


class Ending:
    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = steps

    def close(self) -> None:
        for step in self._steps:
            step()


async def thread(state: dict[str, Any]) -> None:
    end = threading.Event()
    started = threading.Thread(target=end.wait, name="poller", daemon=True)
    started.start()
    kept.append(Ending(end.set, started.join))


async def keeper(state: dict[str, Any]) -> None:
    class Client:
        def __init__(self) -> None:
            self.loop = asyncio.get_running_loop()

    state["client"] = Client()


async def loop_in_state(state: dict[str, Any]) -> None:
    state["loop"] = asyncio.get_running_loop()


async def contended_lock(state: dict[str, Any]) -> None:
    state["lock"] = lock = asyncio.Lock()
    async with lock:
        waiting = asyncio.ensure_future(lock.acquire())
        await asyncio.sleep(0)
    await waiting
    lock.release()


async def database(state: dict[str, Any]) -> None:
    path = os.environ["DATABASE"]
    kept.append(sqlite3.connect(path))
    kept[-1].execute("create table if not exists x (y)")


@pytest.mark.parametrize(
    ("start", "named"),
    [
        (task, "the task task.<locals>.refresh()"),
        (timer, "the timer that calls list.clear()"),
        (connection, "that the event loop waits for"),
        (blocking_connection, "the connection to 127.0.0.1:"),
        (server, "that the event loop waits for"),
        (thread, "thread poller"),
        (keeper, "Client, which has kept the event loop"),
        (loop_in_state, "a dict under 'loop', which has kept the event loop"),
        (contended_lock, "asyncio.locks.Lock, which has kept the event loop"),
        (database, "the open SQLite database"),
    ],
)
def test_what_cannot_cross_a_fork_is_named_and_each_worker_starts_the_application(
    start: Start,
    named: str,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE", str(tmp_path / "x.sqlite3"))
    application = Application(start)
    with caplog.at_level(logging.INFO, "pasture"):
        lifespan = SharedLifespan(application)
        lifespan.start()
        lifespan.share(strict=False)
    assert named in caplog.text
    assert "each worker starts the application for itself" in caplog.text
    assert application.events == [f"{what} in {os.getpid()}" for what in ("started", "ended")]
    assert lifespan.session is None


def test_a_strict_server_ends_rather_than_start_the_application_in_each_worker() -> None:
    lifespan = SharedLifespan(Application(thread))
    lifespan.start()
    with pytest.raises(SealFailed, match="thread poller"):
        lifespan.share(strict=True)


def test_what_a_request_of_the_warm_up_has_opened_takes_the_adopted_state_back() -> None:
    application = Application(load)
    lifespan = SharedLifespan(application)
    lifespan.start()
    lifespan.share(strict=False)
    asyncio.run(thread({}))
    lifespan.share(strict=False)
    assert len(application.events) == 2
    asyncio.run(serve(lifespan.wrap(application)))
    assert len(application.events) == 4


def test_a_start_that_fails_ends_the_server_with_the_words_of_the_application() -> None:
    async def failing(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no model"})

    with pytest.raises(AppImportFailed, match="no model"):
        SharedLifespan(failing).start()


def test_an_application_without_a_lifespan_is_left_to_the_workers() -> None:
    async def bare(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("no lifespan")

    lifespan = SharedLifespan(bare)
    lifespan.start()
    lifespan.share(strict=True)
    with pytest.raises(RuntimeError, match="no lifespan"):
        asyncio.run(serve(lifespan.wrap(bare)))
    lifespan.end()
