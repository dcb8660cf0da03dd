"""Objects of an event loop of asyncio that do not work in a child: surveyed and closed.

A child has a loop of its own: tasks, timers and connections of the parent's do not run there, and
what has kept that loop fails at its next use. `SurveyedLoop` looks for them. `close_all` closes
what is open where its loop runs, as the cards of libraries say, and transports.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import types
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from selectors import BaseSelector
from typing import Any

from pasture.fork_safety.libraries import LIBRARIES
from pasture.fork_safety.library import LoopOwned, instances
from pasture.fork_safety.open_files import name_of
from pasture.reasons import Hazard, Reason

_IN_EACH = "start it in each worker"
_OPEN_IN_EACH = "open it in each worker"

_BY_ITSELF = ("anyio.", "asyncio.", "uvloop.")
"""Modules whose objects ask for the running loop at each use. asyncio's locks and queues do not."""

BOUND = (asyncio.Lock, asyncio.Event, asyncio.Condition, asyncio.Semaphore, asyncio.Queue)
"""A task that waits for one binds it to the task's loop."""

_SUSPENDED = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType, types.FrameType)
_CALLS = (types.MethodType, types.BuiltinMethodType, types.CellType)
CLOSE_S = 5.0  # for all closes: a pool waits for connections that are in use
_TASKS_END_S = 1.0  # for tasks to end by themselves
_AFTER_CLOSE_S = 0.05  # transports close one or two rounds of the loop after `close`

_START_EACH = "start it in the lifespan's start, which runs in each worker"
OWNERS = tuple(owned for library in LIBRARIES for owned in library.on_loop)


class SurveyedLoop:
    """An event loop that can be surveyed."""

    def __init__(self, selector: BaseSelector) -> None:
        self._selector = selector
        self.loop = asyncio.SelectorEventLoop(selector)
        self._own_files = set(selector.get_map())

    def hazards(self, own: Collection[object]) -> Iterator[Hazard]:
        """Tasks, timers, files and keepers of the loop, except `own`. Not while the loop runs."""
        for task in asyncio.all_tasks(self.loop):
            if not any(task is one for one in own):
                name = getattr(task.get_coro(), "__qualname__", task.get_name())
                yield Hazard(f"the task {name}()", _IN_EACH)
        for timer in getattr(self.loop, "_scheduled", ()):
            # The limits of waits for a task are seen with the task.
            called = getattr(timer, "_callback", None)
            module = str(getattr(called, "__module__", None))
            if not timer.cancelled() and not module.startswith("asyncio."):
                name = getattr(called, "__qualname__", type(called).__qualname__)
                yield Hazard(f"the timer that calls {name}()", _IN_EACH)
        for number in (key.fd for key in self._selector.get_map().values()):
            if number not in self._own_files:
                what = f"the open file {number}, {name_of(number)},"
                yield Hazard(f"{what} that the event loop waits for", _OPEN_IN_EACH)
        gc.collect()
        known = {
            id(one) for each in (self, *own) for one in (each, getattr(each, "__dict__", None))
        }
        keepers = [one for one in gc.get_referrers(self.loop) if id(one) not in known]
        names = set(map(describe, keepers))
        for name in sorted(filter(None, names)):
            yield Hazard(f"{name}, which has kept the event loop,", _OPEN_IN_EACH)


def describe(keeper: Any) -> str | None:
    """The keeper of a loop, in words; None if it does no harm in a child."""
    if isinstance(keeper, dict):
        return _describe_dict(keeper)
    if isinstance(keeper, (*_SUSPENDED, *_CALLS)) or isinstance(keeper, asyncio.Future):
        return None  # they run in the parent only, or are seen as tasks
    module = type(keeper).__module__
    if module.startswith(_BY_ITSELF) and not isinstance(keeper, BOUND):
        return None
    return f"an object of {module}.{type(keeper).__qualname__}"


def _describe_dict(keeper: dict[Any, Any]) -> str | None:
    for owner in gc.get_referrers(keeper):
        if issubclass(type(owner), types.ModuleType):
            return f"the module {owner.__name__}"
        if getattr(owner, "__dict__", None) is keeper:
            return describe(owner)
    keys = [key for key, value in keeper.items() if isinstance(value, asyncio.AbstractEventLoop)]
    return f"a dict under {keys[0]!r}" if keys else "a dict"


@dataclass(slots=True)
class Closed:
    """The outcome of closing a loop's objects."""

    # Objects that cannot be used again, if they still exist.
    ended: list[weakref.ref[Any]] = field(default_factory=list)
    # Tasks that ran on the loop and run nowhere from now on.
    hazards: list[Hazard] = field(default_factory=list)


async def close_usable() -> None:
    """Close objects that can be used again on another loop. In a loop that goes on."""
    usable = [owner for owner in OWNERS if not owner.is_for_good]
    await _close(usable, lambda one, owner: not owner.is_kept(one))


async def close_all(own: Collection[object]) -> Closed:
    """End all that is left on the running loop, except the tasks `own`: the loop ends next."""
    found = Closed()
    await _end_tasks(own, found)
    loop = asyncio.get_running_loop()
    found.ended += await _close(
        OWNERS,
        # An object that says that it is another loop's is not bound to this one.
        lambda one, owner: not owner.is_for_good or getattr(one, "_loop", None) in (None, loop),
    )
    found.ended += await _close_transports(loop)
    return found


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
    """The function that a task runs, and its package."""
    coroutine: Any = task.get_coro()
    name = getattr(coroutine, "__qualname__", task.get_name())
    frame = getattr(coroutine, "cr_frame", None)
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0] if frame else ""
    return f"the task {name}()" + (f" of {package}" if package else "")


async def _close(
    owners: Sequence[LoopOwned],
    may_close: Callable[[Any, LoopOwned], bool] = lambda one, owner: True,
) -> list[weakref.ref[Any]]:
    """Close objects of these classes, class by class; returns those that cannot be used again."""
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
    """Close the connections of libraries that are not known; returns their users."""
    transports = list(getattr(loop, "_transports", {}).values())
    users = []
    for transport in transports:
        with suppress(AttributeError, TypeError):  # some cannot be referred to weakly
            users.append(weakref.ref(transport.get_protocol()))
        with suppress(Exception):
            transport.abort() if hasattr(transport, "abort") else transport.close()
    if transports:
        await asyncio.sleep(_AFTER_CLOSE_S)
    return users
