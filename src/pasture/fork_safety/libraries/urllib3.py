"""Idle connections in urllib3's pools, closed before each fork: no two processes share one.

requests, botocore and most agents keep their connections in such a pool, which does not notice a
fork. The pools stay, and open a connection at the next request. A connection that a thread uses is
not in its pool, and gets a second to come back: agents send in threads of their own. A hook before
each fork closes connections that were opened since the seal.

Source: urllib3 1.26 and 2, connectionpool.py (`_get_conn`, `_put_conn`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from pasture.fork_safety.library import Closing, Library, instances

_LIBRARY = "urllib3."
"""The end of the module's name: libraries bring copies of urllib3."""

_TIMEOUT_S = 0.1  # longest wait for a lock of a pool, which are held for microseconds
_RETURN_S = 1.0  # for connections that threads use; the survey reports those still in use
_BETWEEN_LOOKS_S = 0.02

_pools: WeakSet[Any] = WeakSet()
_managers: WeakSet[Any] = WeakSet()
_connections: WeakSet[Any] = WeakSet()
_hooked = False


def _close_idle(problems: list[str]) -> int:
    """Close idle connections of all pools, now and before each fork. Safe while threads run."""
    global _hooked
    pools = _classes("connectionpool", "HTTPConnectionPool")
    managers = _classes("poolmanager", "PoolManager")
    connections = _classes("connection", "HTTPConnection")
    if not pools:
        return 0
    # Kept, because the next round no longer finds those that this one is about to freeze.
    for one in instances((*pools, *managers, *connections)):
        if issubclass(type(one), pools):
            _pools.add(one)
        elif issubclass(type(one), managers):
            _managers.add(one)
        else:
            _connections.add(one)
    if not _hooked:
        os.register_at_fork(before=_close_known)
        _hooked = True
    deadline = time.monotonic() + _RETURN_S
    closed = _close_known()
    while any(map(_is_open, list(_connections))) and time.monotonic() < deadline:
        time.sleep(_BETWEEN_LOOKS_S)
        closed += _close_known()
    return closed


def _classes(module: str, name: str) -> tuple[type, ...]:
    found = {
        getattr(loaded, name, None)
        for path, loaded in list(sys.modules.items())
        if path.endswith(_LIBRARY + module)
    }
    return tuple(one for one in found if isinstance(one, type))


def _close_known() -> int:
    pools = {id(pool): pool for pool in list(_pools)}
    for manager in list(_managers):
        pools.update((id(pool), pool) for pool in _pools_of(manager))
    return sum(map(_empty, pools.values()))


def _pools_of(manager: Any) -> list[Any]:
    """The pools of a manager; it makes one at the first request to a host."""
    container = getattr(manager, "pools", None)
    lock, held = getattr(container, "lock", None), getattr(container, "_container", None)
    if lock is None or held is None:
        return []
    with _taken(lock) as is_ours:
        return list(held.values()) if is_ours else []


def _empty(pool: Any) -> int:
    places = getattr(pool, "pool", None)
    if places is None:  # it has been closed
        return 0
    with _taken(getattr(places, "mutex", None)) as is_ours:
        found = list(places.queue) if is_ours else []
        places.queue[: len(found)] = [None] * len(found)
    return sum(_close(connection) for connection in found if connection is not None)


@contextmanager
def _taken(lock: Any) -> Iterator[bool]:
    """Take a lock if it gets free: one that was held at a fork is never free again in the child."""
    if lock is None:  # a queue of gevent's, which needs no lock
        yield True
    elif lock.acquire(timeout=_TIMEOUT_S):
        try:
            yield True
        finally:
            lock.release()
    else:
        yield False


def _is_open(connection: Any) -> bool:
    return getattr(connection, "sock", None) is not None


def _close(connection: Any) -> bool:
    was_open = _is_open(connection)
    with suppress(OSError):
        connection.close()
    return was_open


CARD = Library(package="urllib3", closings=(Closing("http_connections", _close_idle),))
