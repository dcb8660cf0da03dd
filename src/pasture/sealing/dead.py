"""The account of the dead: objects that earlier seals keep for good although they are unreachable.

Owns the figures and the sentence; the extension finds the objects (`src/native/seal/dead.c`).
Objects that only C code holds count as dead, a few per cent of a heap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pasture.interpreter import native
from pasture.proc.own_memory import read_own_memory
from pasture.sealing.memory_types import TypeCount, by_bytes

_LARGE = 10
"""Part of the heap that is worth a sentence."""
_NAMED = 3
_LISTED = 10
"""Number of types in a report, which stays in the heap of the next seal."""

Found = tuple[Mapping[str, int], tuple[TypeCount, ...], tuple[str, ...]]


def look() -> Found:
    """Counts, types and problems, before a later seal; empty before the first one."""
    try:
        types = by_bytes(native().dead_objects())
        heap_bytes = read_own_memory().heap_bytes if types else 0
    except (MemoryError, OSError, ValueError):  # the seal goes on without the account
        return {}, (), ()
    if not types:
        return {}, (), ()
    dead_bytes = sum(one.bytes for one in types)
    is_large = dead_bytes * _LARGE > heap_bytes
    problems = (sentence(dead_bytes, heap_bytes, types),) if is_large else ()
    return {"dead_bytes": dead_bytes}, types[:_LISTED], problems


def sentence(dead_bytes: int, heap_bytes: int, types: Sequence[TypeCount]) -> str:
    """The size of the dead and the remedy. Pure."""
    named = ", ".join(f"{one.objects:,} {one.name}" for one in types[:_NAMED])
    return (
        f"{dead_bytes / 1e6:.1f} of {heap_bytes / 1e6:.1f} MB of the heap are sealed and not used "
        f"any more ({named}): restart the server, or replace data before its first seal"
    )
