"""asgiref's thread ends before a fork if it waits for work, and starts again at its next use."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from pasture.fork_safety import kept
from pasture.fork_safety.libraries import asgiref

sync: Any = pytest.importorskip("asgiref.sync")


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Django's in that thread."""
    found: list[Any] = []
    monkeypatch.setattr(kept, "django_connections", lambda: found)
    yield found
    monkeypatch.undo()
    sync.SyncToAsync.single_thread_executor.shutdown()
    sync.SyncToAsync.single_thread_executor = ThreadPoolExecutor(max_workers=1)


def call(work: Any = threading.get_ident) -> Any:
    async def run() -> Any:
        return await sync.sync_to_async(work)()

    return asyncio.run(run())


def close() -> int:
    [closing] = asgiref.CARD.closings
    return closing.close([])


def test_a_thread_that_waits_ends_and_the_next_call_starts_another(connections: list[Any]) -> None:
    assert close() == 0, "none was started"
    closed: list[int] = []
    connections.append(
        SimpleNamespace(connection=None, close=lambda: closed.append(threading.get_ident()))
    )
    before = set(threading.enumerate())
    ident = call()
    assert close() == 1
    assert closed == [ident], "in the thread that has opened it"
    assert set(threading.enumerate()) <= before
    assert call() and close() == 1


def test_a_thread_that_works_or_is_in_a_transaction_is_left_alone(
    connections: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgiref, "_IDLE_S", 0.01)
    go_on, executor = threading.Event(), sync.SyncToAsync.single_thread_executor
    executor.submit(go_on.wait)
    assert close() == 0
    go_on.set()
    connections.append(SimpleNamespace(connection=object(), in_atomic_block=True))
    monkeypatch.setattr(asgiref, "_IDLE_S", 30)
    assert close() == 0
    assert sync.SyncToAsync.single_thread_executor is executor and call()


@pytest.mark.parametrize("child", [False, True], ids=["shut down", "of the parent"])
def test_an_executor_that_works_no_more_makes_way_for_another(
    monkeypatch: pytest.MonkeyPatch, child: bool
) -> None:
    call()
    executor = sync.SyncToAsync.single_thread_executor
    if child:  # as after a fork
        monkeypatch.setattr(executor, "_threads", {threading.Thread()})
    else:
        executor.shutdown()
    assert close() in (0, 1) and call()
    monkeypatch.undo()
    executor.shutdown()


def test_an_executor_of_another_making_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync.SyncToAsync, "single_thread_executor", object())
    assert close() == 0
