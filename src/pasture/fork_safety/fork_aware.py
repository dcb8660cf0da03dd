"""Open connections that their library leaves to the parent: each child opens its own.

A library stands in the table if it sees in a child that the process is another one before it uses
a connection, and if that was tried in children of a sealed parent. What is not trusted stays a
hazard: versions that were not tried, and connections that somebody holds while he uses them.
docs/results/agents.md says what was tried. Closes nothing; walks the heap once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from pasture.fork_safety.instances import instances
from pasture.fork_safety.libraries import grpc as grpc_core

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """One that copes with a fork.

    Attributes:
        oldest, newest: versions that were tried, the first numbers of each.
        keepers: takes the library's module; classes whose objects know its connections.
        idle: takes such objects; numbers of the open files that no child will use.
        copes: whether it has not been told to leave forks alone.
    """

    oldest: Version
    newest: Version
    keepers: Callable[[Any], Iterable[object]]
    idle: Callable[[Sequence[Any]], Iterable[int]]
    copes: Callable[[], bool] = lambda: True


def _redis_pools(module: Any) -> Iterable[object]:
    return (getattr(module, "ConnectionPool", None),)


def _idle_of_redis(pools: Sequence[Any]) -> Iterator[int]:
    """Source: redis-py 5.2 to 8.1, connection.py (`_checkpid`, `get_connection`, `release`)."""
    for pool in pools:
        waiting = getattr(pool, "pool", None)  # a BlockingConnectionPool's queue, of None, too
        held = getattr(pool, "_available_connections", ()) if waiting is None else waiting.queue
        for connection in list(held):
            # A client with a cache wraps its connection.
            socket = getattr(getattr(connection, "_conn", connection), "_sock", None)
            if socket is not None:
                yield socket.fileno()


LIBRARIES: Mapping[str, Library] = {
    "redis": Library((5, 2), (8, 1), _redis_pools, _idle_of_redis),
    "grpc": Library((1, 85), (1, 85), grpc_core.keepers, grpc_core.connections, grpc_core.copes),
}
"""By the name of the module. kombu and Celery keep connections to Redis in pools of redis-py; those
to other brokers they do not open anew after a fork that is not multiprocessing's."""


def copes(name: str) -> bool:
    """Whether a library has been imported, in a version of which it is known that it copes."""
    version = getattr(sys.modules.get(name), "__version__", "")
    numbers = tuple(map(int, re.findall(r"\d+", str(version))))
    library = LIBRARIES[name]
    tried = library.oldest <= numbers and numbers[: len(library.newest)] <= library.newest
    return tried and library.copes()


_known: WeakSet[Any] = WeakSet()
"""Kept, because the next round no longer finds those that this one is about to freeze."""

_noted_by = 0
_noted: frozenset[int] = frozenset()
_inherited: frozenset[int] = frozenset()
"""Sockets, by their inode: those that the process has noted as idle, and those that the processes
have that it comes from. A library that has seen the new process no longer knows the latter."""


def sockets() -> frozenset[int]:
    """Inodes of the connections that no child will use. In the parent, before the fork."""
    global _noted_by, _noted, _inherited
    if _noted_by != os.getpid():
        _inherited, _noted, _noted_by = _inherited | _noted, frozenset(), os.getpid()
    _noted = frozenset(_inodes(_idle_files()))
    return _inherited | _noted


def _idle_files() -> Iterator[int]:
    wanted = {name: _classes(name) for name in LIBRARIES if copes(name)}
    if not any(wanted.values()):
        return
    for one in instances(one for classes in wanted.values() for one in classes):
        with suppress(TypeError):  # some cannot be referred to weakly
            _known.add(one)
    for name, classes in wanted.items():
        found = [one for one in _known if issubclass(type(one), classes)]
        yield from LIBRARIES[name].idle(found)


def _classes(name: str) -> tuple[type, ...]:
    found = LIBRARIES[name].keepers(sys.modules[name])
    return tuple(one for one in found if isinstance(one, type))


def _inodes(numbers: Iterable[int]) -> Iterator[int]:
    for number in numbers:
        try:
            yield os.fstat(number).st_ino
        except OSError:
            continue  # it has just been closed
