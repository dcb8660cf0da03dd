"""Open connections that their library leaves to the parent: each child opens its own.

The card of a library says so if it sees in a child that the process is another one before it uses
a connection, and if that was tried in children of a sealed parent. What is not trusted stays a
hazard: versions that were not tried, and connections that are in use.
docs/results/agents.md says what was tried. Closes nothing; walks the heap once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from pasture.fork_safety.libraries import LIBRARIES
from pasture.fork_safety.library import ForkAware, instances

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
    found = set()
    for number in _idle_files():
        with suppress(OSError):  # it has just been closed
            found.add(os.fstat(number).st_ino)
    _noted = frozenset(found)
    return _inherited | _noted


def _idle_files() -> Iterator[int]:
    trusted = [
        (aware, _classes(aware))
        for library in LIBRARIES
        if (aware := library.fork_aware) is not None and aware.is_trusted()
    ]
    if not any(classes for _, classes in trusted):
        return
    for one in instances(one for _, classes in trusted for one in classes):
        with suppress(TypeError):  # some cannot be referred to weakly
            _known.add(one)
    for aware, classes in trusted:
        yield from aware.idle([one for one in _known if issubclass(type(one), classes)])


def _classes(aware: ForkAware) -> tuple[type, ...]:
    found = aware.keepers(sys.modules[aware.module])
    return tuple(one for one in found if isinstance(one, type))
