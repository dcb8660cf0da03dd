"""What libraries keep open on an event loop of asyncio, closed in that loop before it ends.

A connection that was opened on one loop works on no other, and two processes must not share it. It
can only be closed properly where its loop runs. Cards of libraries say how (`libraries/`). Owns
what is done for those that have none: transports that a loop still has are closed.
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pasture.fork_safety.hazard import Hazard
from pasture.fork_safety.instances import instances
from pasture.fork_safety.libraries import LIBRARIES
from pasture.fork_safety.library import LoopOwned
from pasture.reasons import Reason

CLOSE_S = 5.0
"""Longest wait for all of them: a pool waits for connections that are in use."""

_TASKS_END_S = 1.0
"""Tasks that requests have started and not waited for get so long to end by themselves."""

_AFTER_CLOSE_S = 0.05
"""Transports close one or two rounds of the loop after they were asked to."""

_START_EACH = "start it in the lifespan's start, which runs in each worker"


OWNERS = tuple(owned for library in LIBRARIES for owned in library.on_loop)


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
    usable = [owner for owner in OWNERS if not owner.is_for_good]
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
        found.hazards.append(Hazard(name, _START_EACH, Reason.TASK))


def name_of_task(task: asyncio.Task[Any]) -> str:
    """The function that a task runs, and the package that it is of."""
    coroutine: Any = task.get_coro()
    name = getattr(coroutine, "__qualname__", task.get_name())
    frame = getattr(coroutine, "cr_frame", None)
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0] if frame else ""
    return f"the task {name}()" + (f" of {package}" if package else "")


async def _close(
    owners: Sequence[LoopOwned],
    may_close: Callable[[Any, LoopOwned], bool] = lambda one, owner: True,
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
    owners: Sequence[LoopOwned], may_close: Callable[[Any, LoopOwned], bool]
) -> Iterator[tuple[Any, LoopOwned]]:
    classes = [
        (known, owner)
        for owner in owners
        if isinstance(known := getattr(sys.modules.get(owner.module), owner.name, None), type)
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
