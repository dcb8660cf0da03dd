"""Closing what must not cross a fork: connections that two processes would then share.

Owns the user's hooks and the libraries that are known here. A library counts only if the
application has imported it; nothing is imported for its sake. All of them reconnect by
themselves at the next use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from weakref import WeakSet

from pasture.fork_safety import kept
from pasture.fork_safety.instances import instances
from pasture.fork_safety.libraries import opentelemetry, urllib3

Hook = TypeVar("Hook", bound=Callable[[], object])

_hooks: list[Callable[[], object]] = []

_unsafe: str | None = None

_engines: WeakSet[Any] = WeakSet()

KEPT_POOLS = ("StaticPool", "SingletonThreadPool")
"""Pools of in-memory databases: closing their connection would lose the data."""


def before_fork(hook: Hook) -> Hook:
    """Have a function called before each seal, after the warm-up. A decorator.

    It is the place to close what your application holds open: sockets, clients of queues
    and caches, threads. Runs in the parent, in the order of registration.

    Returns:
        The function itself.
    """
    _hooks.append(hook)
    return hook


def fork_unsafe(reason: str) -> None:
    """Mark this process as one from which nothing must be forked any more.

    For an application that has started what no fork survives and what cannot be closed: a
    refork then leaves this worker alone. Cannot be undone; processes forked later from
    other workers are not concerned. Safe at any time, with other threads running too.

    Args:
        reason: text for the log, as in "CUDA is initialized".
    """
    global _unsafe
    _unsafe = reason


def unsafe_reason() -> str | None:
    """Why nothing must be forked from this process any more; None if it may be."""
    return _unsafe


def close_connections(*, keep: bool = False) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """Run the hooks, and close the connections of libraries known here.

    In the parent, before the fork. Safe with other threads running, but connections that
    other threads opened may stay. One of Django's that is in a transaction stays open, and
    children forget it.

    Args:
        keep: leave all connections to databases open, for a process that goes on using them;
            its children forget them.

    Returns:
        Dict of kind to the number closed, and what went wrong, a line each.
    """
    counts: dict[str, int] = {}
    problems: list[str] = []
    opentelemetry.put_in_order_in_children()
    to_databases = () if keep else _TO_DATABASES
    if keep:
        kept.keep(_all_engines())
    for kind, close in (
        ("hooks", _run_hooks),
        *to_databases,
        ("django_caches", _close_django_caches),
        ("http_connections", _close_http_connections),
    ):
        try:
            closed = close(problems)
        except Exception as error:
            problems.append(f"{kind}: {type(error).__name__}: {error}")
            continue
        if closed:
            counts[kind] = closed
    return counts, tuple(problems)


def _run_hooks(problems: list[str]) -> int:
    for hook in _hooks:
        try:
            hook()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            name = getattr(hook, "__qualname__", repr(hook))
            problems.append(f"hook {name}: {type(error).__name__}: {error}")
    return len(_hooks)


def _close_django_connections(problems: list[str]) -> int:
    database = _configured_django("django.db")
    if database is None:
        return 0
    connections = kept.made_by(database.connections)
    opened = [connection for connection in connections if connection.connection is not None]
    if any(map(kept.is_in_transaction, connections)):
        kept.keep([])
        for connection in connections:
            if not kept.is_in_transaction(connection):
                connection.close()
    else:
        database.connections.close_all()
    for connection in connections:
        # A pool (PostgreSQL, Django 5.1 and later) has connections and threads of its own.
        # Asking for `connection.pool` would make one.
        if connection.alias in getattr(connection, "_connection_pools", ()):
            connection.close_pool()
    # Django keeps the connection of an in-memory database.
    return sum(1 for connection in opened if connection.connection is None)


def _close_django_caches(problems: list[str]) -> int:
    cache = _configured_django("django.core.cache")
    if cache is None:
        return 0
    cache.close_caches()
    return len(kept.made_by(cache.caches))


def _configured_django(module: str) -> Any:
    conf = sys.modules.get("django.conf")
    if conf is None or not conf.settings.configured:
        return None
    return sys.modules.get(module)


def _close_http_connections(problems: list[str]) -> int:
    return urllib3.close_idle()


def _all_engines() -> list[Any]:
    """Engines of SQLAlchemy, without those of in-memory databases."""
    module = sys.modules.get("sqlalchemy.engine")
    if module is None:
        return []
    # Kept, because the next round no longer finds those that this one is about to freeze.
    _engines.update(instances((module.Engine,)))
    return [engine for engine in _engines if type(engine.pool).__name__ not in KEPT_POOLS]


def _dispose_sqlalchemy_engines(problems: list[str]) -> int:
    disposed = 0
    for engine in _all_engines():
        is_async = getattr(getattr(engine, "dialect", None), "is_async", False)
        try:
            _forget_pool(engine) if is_async else engine.dispose()
        except Exception as error:
            problems.append(f"{engine!r}: {type(error).__name__}: {error}")
        else:
            disposed += 1
    return disposed


def _forget_pool(engine: Any) -> None:
    """Give an asynchronous engine a new pool: connections can be closed in their loop alone.

    A warm-up has closed them there. Left are those of a loop that has ended, which fail at their
    next use. Source: SQLAlchemy 1.4 to 2.1, engine/base.py (`Engine.dispose` with `close=False`).
    """
    if engine.pool.checkedin():
        engine.pool = engine.pool.recreate()


_TO_DATABASES = (
    ("django_connections", _close_django_connections),
    ("sqlalchemy_engines", _dispose_sqlalchemy_engines),
)
