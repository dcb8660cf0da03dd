"""What libraries keep open on an event loop of asyncio, closed in that loop before it ends.

A connection that was opened on one loop works on no other, and two processes must not share it. It
can only be closed properly where its loop runs. Owns the table of libraries, and what is done for
those that are not in it: transports that a loop still has are closed. A library counts only if the
application has imported it.
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pasture.fork_safety.close import KEPT_POOLS
from pasture.fork_safety.hazard import Hazard, Kind
from pasture.fork_safety.instances import instances

CLOSE_S = 5.0
"""Longest wait for all of them: a pool waits for connections that are in use."""

_TASKS_END_S = 1.0
"""Tasks that requests have started and not waited for get so long to end by themselves."""

_AFTER_CLOSE_S = 0.05
"""Transports close one or two rounds of the loop after they were asked to."""

_START_EACH = "start it in the lifespan's start, which runs in each worker"


@dataclass(frozen=True, slots=True)
class _Owner:
    """A class whose objects keep connections, threads or the loop itself.

    Attributes:
        close: closes one in the running loop; None where there is nothing to close.
        is_open: whether there is something to close.
        is_kept: whether it has data that end with its connection: closed with the loop only.
        is_for_good: the object cannot be used again afterwards, on any loop.
        unbind: attributes that keep the loop, and that the library sets anew if they are None.
    """

    close: Callable[[Any], Awaitable[object] | None]
    is_open: Callable[[Any], bool] = lambda one: True
    is_kept: Callable[[Any], bool] = lambda one: False
    is_for_good: bool = True
    unbind: tuple[str, ...] = ()


def _dispose(engine: Any) -> Awaitable[object]:
    spawn: Any = sys.modules["sqlalchemy.util.concurrency"].greenlet_spawn
    disposed: Awaitable[object] = spawn(engine.dispose)
    return disposed


OWNERS: Mapping[tuple[str, str], _Owner] = {
    # Pools and clients first: they close connections of the classes below.
    ("sqlalchemy.engine", "Engine"): _Owner(
        _dispose,
        lambda engine: bool(getattr(engine.dialect, "is_async", False)),
        lambda engine: type(engine.pool).__name__ in KEPT_POOLS,
        is_for_good=False,
    ),
    ("redis.asyncio.connection", "AbstractConnection"): _Owner(
        lambda one: one.disconnect(), lambda one: bool(one.is_connected), is_for_good=False
    ),
    ("httpcore", "AsyncConnectionPool"): _Owner(
        lambda one: one.aclose(), lambda one: bool(one.connections), is_for_good=False
    ),
    ("httpcore2", "AsyncConnectionPool"): _Owner(
        lambda one: one.aclose(), lambda one: bool(one.connections), is_for_good=False
    ),
    ("elastic_transport", "AsyncTransport"): _Owner(
        lambda one: None, is_for_good=False, unbind=("_loop",)
    ),
    ("elastic_transport", "AiohttpHttpNode"): _Owner(
        lambda one: one.close(), is_for_good=False, unbind=("_loop",)
    ),
    ("motor.core", "AgnosticClient"): _Owner(
        lambda one: None, is_for_good=False, unbind=("_io_loop",)
    ),
    ("pymongo", "AsyncMongoClient"): _Owner(
        lambda one: one.close(), lambda one: bool(getattr(one, "_opened", True))
    ),
    ("aiohttp", "ClientSession"): _Owner(lambda one: one.close(), lambda one: not one.closed),
    ("asyncpg.pool", "Pool"): _Owner(
        lambda one: one.close(),
        lambda one: bool(getattr(one, "_initialized", True)) and not one.is_closing(),
    ),
    ("asyncpg.connection", "Connection"): _Owner(
        lambda one: one.close(), lambda one: not one.is_closed()
    ),
    ("psycopg_pool", "AsyncConnectionPool"): _Owner(
        lambda one: one.close(), lambda one: not one.closed
    ),
    ("psycopg", "AsyncConnection"): _Owner(lambda one: one.close(), lambda one: not one.closed),
    ("aiosqlite", "Connection"): _Owner(
        lambda one: one.close(), lambda one: bool(getattr(one, "_connection", None))
    ),
    ("grpc.aio", "Channel"): _Owner(lambda one: one.close(None)),
}
"""By the module that an application imports it from, and its name there.

Tried with SQLAlchemy 2.1, redis-py 8.1, httpcore 1.0, elastic-transport 9.4, aiohttp 3.14, asyncpg
0.32, psycopg 3.3, aiosqlite 0.22, grpcio 1.85."""


@dataclass(slots=True)
class Closed:
    """What was closed.

    Attributes:
        ended: objects that cannot be used again, unless they are gone meanwhile.
        hazards: what ran on the loop and runs nowhere from now on.
    """

    ended: list[weakref.ref[Any]] = field(default_factory=list)
    hazards: list[Hazard] = field(default_factory=list)


async def close_usable() -> None:
    """Close what can be used again on another loop. In a loop that goes on."""
    usable = {key: owner for key, owner in OWNERS.items() if not owner.is_for_good}
    await _close(usable, lambda one, owner: not owner.is_kept(one))


async def close_all(own: Collection[object]) -> Closed:
    """End what is left on the running loop, which ends next.

    Args:
        own: tasks that belong to the caller.
    """
    found = Closed()
    await _end_tasks(own, found)
    loop = asyncio.get_running_loop()
    found.ended += await _close(
        OWNERS, lambda one, owner: not owner.is_for_good or _is_of(one, loop)
    )
    found.ended += await _close_transports(loop)
    return found


def _is_of(one: object, loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an object may be bound to a loop: it is not if it says that it is another's."""
    return getattr(one, "_loop", None) in (None, loop)


async def _end_tasks(own: Collection[object], found: Closed) -> None:
    kept = {id(one) for one in own} | {id(asyncio.current_task())}
    tasks = {task for task in asyncio.all_tasks() if id(task) not in kept}
    if not tasks:
        return
    _, left = await asyncio.wait(tasks, timeout=_TASKS_END_S)
    names = {task: name_of_task(task) for task in left}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_TASKS_END_S)
    for name in dict.fromkeys(names.values()):
        found.hazards.append(Hazard(name, _START_EACH, Kind.TASK))


def name_of_task(task: asyncio.Task[Any]) -> str:
    """The function that a task runs, and the package that it is of."""
    coroutine: Any = task.get_coro()
    name = getattr(coroutine, "__qualname__", task.get_name())
    frame = getattr(coroutine, "cr_frame", None)
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0] if frame else ""
    return f"the task {name}()" + (f" of {package}" if package else "")


async def _close(
    owners: Mapping[tuple[str, str], _Owner],
    may_close: Callable[[Any, _Owner], bool] = lambda one, owner: True,
) -> list[weakref.ref[Any]]:
    """Close objects of these classes, class by class; those that are ended for good."""
    ended: list[weakref.ref[Any]] = []
    loop = asyncio.get_running_loop()
    deadline = loop.time() + CLOSE_S
    for one, owner in list(_open_ones(owners, may_close)):
        with suppress(Exception):
            closing = owner.close(one)
            if closing is not None:
                await asyncio.wait_for(closing, max(0.0, deadline - loop.time()))
        for name in owner.unbind:
            with suppress(Exception):
                setattr(one, name, None)
        if owner.is_for_good:
            with suppress(TypeError):  # some cannot be referred to weakly
                ended.append(weakref.ref(one))
    return ended


def _open_ones(
    owners: Mapping[tuple[str, str], _Owner], may_close: Callable[[Any, _Owner], bool]
) -> Iterator[tuple[Any, _Owner]]:
    classes = [
        (known, owner)
        for (module, name), owner in owners.items()
        if isinstance(known := getattr(sys.modules.get(module), name, None), type)
    ]
    found = instances([known for known, _ in classes]) if classes else []
    for known, owner in classes:
        for one in found:
            with suppress(Exception):
                if issubclass(type(one), known) and owner.is_open(one) and may_close(one, owner):
                    yield one, owner


async def _close_transports(loop: asyncio.AbstractEventLoop) -> list[weakref.ref[Any]]:
    """Close the connections of libraries that are not known; who has used them."""
    transports = list(getattr(loop, "_transports", {}).values())
    users = [_user_of(transport) for transport in transports]
    for transport in transports:
        with suppress(Exception):
            transport.abort() if hasattr(transport, "abort") else transport.close()
    if transports:
        await asyncio.sleep(_AFTER_CLOSE_S)
    return [user for user in users if user is not None]


def _user_of(transport: Any) -> weakref.ref[Any] | None:
    protocol = transport.get_protocol() if hasattr(transport, "get_protocol") else None
    try:
        return None if protocol is None else weakref.ref(protocol)
    except TypeError:
        return None
