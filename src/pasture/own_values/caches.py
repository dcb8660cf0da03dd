"""Caches of functions that a warm-up has filled with what each worker would make for itself.

A `functools.cache` that keeps `PID@HOST` is the parent's in all workers, once a request of the
warm-up has filled it. Such a cache is emptied: it is then as in a worker that has served nothing.
Values that a program keeps elsewhere are not known from others.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Collection, Iterator
from typing import Any

from pasture.own_values.identity import Identity

Cache = functools._lru_cache_wrapper


def caches() -> list[Any]:
    """All caches of this process. Walks the heap: in the parent, before it is frozen."""
    return [one for one in gc.get_objects() if type(one) is Cache]


def _values_of(cached: Any) -> list[Any]:
    """All that it keeps, and keys among it; not the function, nor what is known of that."""
    parts = gc.get_referents(cached)
    held = [part for part in parts if part is not cached.__dict__ and not callable(part)]
    return [list(part.values()) if type(part) is dict else part for part in held]


class Filled:
    """The caches that are filled from now on.

    None is kept alive: that of the statements of a `sqlite3.Connection` refers to the connection,
    which would stay open.

    Args:
        drawn: random bytes that this process has drawn since; may grow.
    """

    def __init__(self, drawn: Collection[bytes] = ()) -> None:
        self._drawn = drawn
        self._known = {id(one): weakref.ref(one) for one in caches()}
        self.begin()

    def begin(self) -> None:
        """Begin again, in this process: from now on. No heap is walked."""
        self._sizes = {key: one.cache_info().currsize for key, one in self._alive().items()}
        self._identity = Identity.now(self._drawn)

    def forget_own(self) -> Iterator[str]:
        """Empty those that hold what is this process's own; yields a sentence for each."""
        before = self._alive()
        found = before | {id(one): one for one in caches()}
        self._known = {key: weakref.ref(one) for key, one in found.items()}
        for key, cached in found.items():
            # Of one that has ended, another may have the id.
            size = self._sizes.get(key, 0) if key in before else 0
            if cached.cache_info().currsize > size:
                own = self._identity.found_in(_values_of(cached))
                if own is not None:
                    cached.cache_clear()
                    name = f"{cached.__module__}.{cached.__qualname__}"
                    yield f"the cache of {name} is emptied: it holds {own}"

    def _alive(self) -> dict[int, Any]:
        """By id, what is known and has not ended. The list of the heap lacks what is frozen."""
        pairs = ((key, reference()) for key, reference in self._known.items())
        return {key: one for key, one in pairs if one is not None}
