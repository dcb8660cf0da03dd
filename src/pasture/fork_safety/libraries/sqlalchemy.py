"""SQLAlchemy: connections in the pools of engines. Tried with SQLAlchemy 1.4 to 2.1."""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from typing import Any
from weakref import WeakSet

from pasture.fork_safety.library import Closing, Library, LoopOwned, instances

_KEPT_POOLS = ("StaticPool", "SingletonThreadPool")
"""Pools of in-memory databases: closing their connection would lose the data."""

_engines: WeakSet[Any] = WeakSet()


def all_engines() -> list[Any]:
    """All engines, except those of in-memory databases."""
    module = sys.modules.get("sqlalchemy.engine")
    if module is None:
        return []
    # Kept, because the next round no longer finds those that this one is about to freeze.
    _engines.update(instances((module.Engine,)))
    return [engine for engine in _engines if not _is_in_memory(engine)]


def _is_in_memory(engine: Any) -> bool:
    return type(engine.pool).__name__ in _KEPT_POOLS


def _dispose_all(problems: list[str]) -> int:
    disposed = 0
    for engine in all_engines():
        try:
            _forget_pool(engine) if _is_async(engine) else engine.dispose()
        except Exception as error:
            problems.append(f"{engine!r}: {type(error).__name__}: {error}")
        else:
            disposed += 1
    return disposed


def _is_async(engine: Any) -> bool:
    return bool(getattr(getattr(engine, "dialect", None), "is_async", False))


def _forget_pool(engine: Any) -> None:
    """Give an asynchronous engine a new pool: connections can be closed only in their loop.

    A warm-up has closed them there. Connections of a loop that has ended are left, and fail at
    their next use. A pool that counts no idle connections may keep one. Source: SQLAlchemy 1.4 to
    2.1, engine/base.py (`Engine.dispose` with `close=False`).
    """
    count_idle = getattr(engine.pool, "checkedin", None)
    if count_idle is None or count_idle():
        engine.pool = engine.pool.recreate()


def _dispose_in_loop(engine: Any) -> Awaitable[object]:
    spawn: Any = sys.modules["sqlalchemy.util.concurrency"].greenlet_spawn
    disposed: Awaitable[object] = spawn(engine.dispose)
    return disposed


CARD = Library(
    package="sqlalchemy",
    closings=(Closing("sqlalchemy_engines", _dispose_all, to_database=True),),
    on_loop=(
        LoopOwned(
            "sqlalchemy.engine",
            "Engine",
            _dispose_in_loop,
            _is_async,
            _is_in_memory,
            is_for_good=False,
        ),
    ),
)
