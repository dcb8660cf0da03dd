"""What is left of an event loop after its end: what fails is named, idle locks are freed."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from pasture.fork_safety import closed_loop

pytestmark = pytest.mark.once

kept: list[Any] = []


class Session:
    """As a client's: it keeps the loop that it was made on."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    kept.clear()
    gc.unfreeze()


def ended(main: Callable[[], Awaitable[object]]) -> closed_loop.Loop:
    """The loop on which a function has run, closed."""
    loops = []

    async def run() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await main()

    asyncio.run(run())
    return loops[0]


def names(loop: closed_loop.Loop) -> list[str]:
    return [hazard.what for hazard in closed_loop.survey(loop)]


async def contend(lock: asyncio.Lock) -> None:
    async def hold() -> None:
        async with lock:
            await asyncio.sleep(0)

    await asyncio.gather(hold(), hold())


def test_a_loop_that_nothing_keeps_is_gone() -> None:
    async def work() -> None:
        await asyncio.to_thread(sum, [1])
        kept.append(asyncio.create_task(asyncio.sleep(3600)))  # cancelled at the loop's end

    assert names(ended(work)) == []


def test_an_object_that_keeps_the_loop_is_named_even_if_it_is_frozen() -> None:
    async def work() -> None:
        kept.append(Session())

    loop = ended(work)
    gc.freeze()
    said = [f"an object of {__name__}.Session, which has kept the worker's event loop,"]
    assert names(loop) == said


def test_a_lock_that_was_waited_for_works_on_another_loop_once_it_is_idle() -> None:
    lock = asyncio.Lock()
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def work() -> None:
        await contend(lock)
        waits = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.put_nowait(1)
        await waits

    loop = ended(work)
    assert loop() is not None
    assert names(loop) == []
    asyncio.run(contend(lock))


def test_a_lock_that_is_held_for_good_is_named() -> None:
    lock = asyncio.Lock()

    async def work() -> None:
        await contend(lock)
        await lock.acquire()

    assert names(ended(work)) == [
        "an object of asyncio.locks.Lock, which has kept the worker's event loop,"
    ]


def test_a_future_that_no_one_will_finish_is_named() -> None:
    async def work() -> None:
        kept.append(asyncio.get_running_loop().create_future())

    assert names(ended(work)) == [
        "a future that is not done, which has kept the worker's event loop,"
    ]


def test_what_a_loop_still_waits_for_is_reported_without_the_servers_own_tasks() -> None:
    pytest.importorskip("gunicorn")
    from pasture.servers.gunicorn.refork.asgi_promotion import waits_for

    waits = []

    async def backup() -> None:
        await asyncio.sleep(3600)

    async def work() -> None:
        task = asyncio.create_task(backup())
        await asyncio.sleep(0)
        waits.append(waits_for(asyncio.get_running_loop()))
        task.cancel()

    asyncio.run(work())
    assert "backup()" in waits[0]
    thread = threading.Thread(target=time.sleep, args=(0.2,), name="exporter")
    thread.start()
    assert "thread exporter" in waits_for(None)
    thread.join()
