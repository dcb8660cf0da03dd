"""Open connections that their library leaves to the parent: each child opens its own.

Cards name the versions that were tried in children of a sealed parent (docs/results/agents.md).
Other versions, and connections in use, stay hazards. Closes nothing; walks the heap once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from pasture.fork_safety.libraries import LIBRARIES
from pasture.fork_safety.library import instances

_known: WeakSet[Any] = WeakSet()
"""Kept, because the next round no longer finds those that this one is about to freeze."""

_noted_by = 0
_noted: frozenset[int] = frozenset()
_inherited: frozenset[int] = frozenset()
"""Inodes of idle sockets of this process and its ancestors, which a library in a child forgets."""


def sockets() -> frozenset[int]:
    """Inodes of connections that children will not use. In the parent, before the fork."""
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
    cards = [library.fork_aware for library in LIBRARIES]
    trusted = []
    for aware in [one for one in cards if one is not None and one.is_trusted()]:
        keepers = aware.keepers(sys.modules[aware.module])
        trusted.append((aware, tuple(one for one in keepers if isinstance(one, type))))
    if not any(classes for _, classes in trusted):
        return
    for one in instances(one for _, classes in trusted for one in classes):
        with suppress(TypeError):  # some cannot be referred to weakly
            _known.add(one)
    for aware, classes in trusted:
        yield from aware.idle([one for one in _known if issubclass(type(one), classes)])
