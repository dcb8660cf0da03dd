"""Leftovers of an event loop of asyncio after its end, in a process that is about to fork.

An object that still holds a closed loop fails at its next use, in this process and in each child: a
client with a session, a lock that a task waits for. Idle locks are set free, as if they had never
been used. The proof that nothing is left: the loop itself is gone.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import types
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pasture.fork_safety.event_loop import BOUND, Closed, describe
from pasture.reasons import Hazard, Reason

_OPEN_IN_EACH = "close it in the lifespan's end, and open it in its start"
_WARM_UPS = "the warm-up's event loop,"
_PENDING = "a future that is not done"
_STREAMS = (asyncio.StreamReader, asyncio.StreamWriter)

Loop = weakref.ref[asyncio.AbstractEventLoop]


def survey(loop: Loop) -> tuple[Hazard, ...]:
    """Objects that hold a loop that has ended. Collects garbage, and may freeze the heap.

    In the only thread that runs, right before the seal. If anything holds it the heap is searched
    once, sealed objects included.
    """
    gc.collect()
    held = loop()
    if held is None:
        return ()
    if not held.is_closed():
        return (Hazard("an event loop that could not be closed", "see the log above"),)
    with frozen_objects_listed():
        names = {name for _, name in _bound(held)}
    return tuple(
        Hazard(f"{name}, which has kept the worker's event loop,", _OPEN_IN_EACH, Reason.LOOP_OWNED)
        for name in sorted(names, key=lambda name: (name == _PENDING, name))
    )


def leave(loop: Loop, closed: Closed) -> tuple[Hazard, ...]:
    """Hazards in objects that cannot be used after a warm-up's loop has ended. Before any seal."""
    gc.collect()
    bound = () if (held := loop()) is None else _bound(held)
    left = {id(one): _named(one, described) for one, described in bound}
    alive = [one for reference in closed.ended if (one := reference()) is not None]
    left |= {id(one): _named(one, what) for one in alive if (what := describe(one)) is not None}
    return (
        *closed.hazards,
        *(
            Hazard(f"{name}, which belongs to {_WARM_UPS}", _OPEN_IN_EACH, Reason.LOOP_OWNED)
            for name in sorted(left.values())
        ),
    )


def _bound(held: asyncio.AbstractEventLoop) -> list[tuple[Any, str]]:
    """Objects that hold a closed loop and fail because of it, each with a description."""
    found: list[tuple[Any, str]] = []
    for keeper in gc.get_referrers(held):
        name = _settle(keeper, held)
        owners = gc.get_referrers(keeper) if type(keeper) is dict and name is not None else []
        for owner in owners:
            if getattr(owner, "__dict__", None) is keeper and type(owner) is not types.ModuleType:
                keeper = owner
                break
        if name is not None:
            found.append((keeper, name))
    return found


def _named(one: Any, described: str) -> str:
    """An object in words, with its name in a module where it has one."""
    for names in gc.get_referrers(one):
        if type(names) is dict and isinstance(module := names.get("__name__"), str):
            key = next((key for key, value in names.items() if value is one), None)
            if key is not None and vars(sys.modules.get(module, types)) is names:
                return f"{module}.{key}, {described}"
    return described


@contextmanager
def frozen_objects_listed() -> Iterator[None]:
    """Have the collector know all objects inside the block. All are frozen after it."""
    enabled = gc.isenabled()
    gc.disable()
    gc.unfreeze()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def _settle(keeper: Any, loop: asyncio.AbstractEventLoop) -> str | None:
    """Free a lock that is idle; else the keeper in words, None if it does no harm."""
    owners: list[Any] = gc.get_referrers(keeper) if isinstance(keeper, dict) else []
    for owner in (keeper, *owners):
        if isinstance(owner, BOUND) and _is_idle(owner) and vars(owner).get("_loop") is loop:
            setattr(owner, "_loop", None)  # noqa: B010  unknown to its type's description
            return None
    if isinstance(keeper, asyncio.Future) and not keeper.done():
        return _PENDING
    if isinstance(keeper, _STREAMS):
        return f"an object of {type(keeper).__module__}.{type(keeper).__qualname__}"
    return describe(keeper)


def _is_idle(lock: Any) -> bool:
    waits = any(getattr(lock, name, None) for name in ("_waiters", "_getters", "_putters"))
    return not waits and not (isinstance(lock, asyncio.Lock) and lock.locked())
