"""The account of the dead: what earlier seals keep for good, although nothing leads to it any more.

Owns the figures and the sentence. How they are found is the extension's (`src/native/seal/dead.c`);
what C code alone holds counts as dead, a few per cent of a heap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pasture.interpreter import native
from pasture.sealing.memory_types import TypeCount, by_bytes

_LARGE = 10
"""A tenth of what is sealed."""
_NAMED = 3

Found = tuple[Mapping[str, int], tuple[TypeCount, ...], tuple[str, ...]]


def look() -> Found:
    """Counts, types and problems. Before a later seal; nothing before the first one."""
    try:
        sealed_bytes, rows = native().dead_objects()
    except MemoryError:  # no reason to leave out the seal
        return {}, (), ()
    if not sealed_bytes:
        return {}, (), ()
    types = by_bytes(rows)
    dead_bytes = sum(one.bytes for one in types)
    counts = {"dead_bytes": dead_bytes, "sealed_bytes": sealed_bytes}
    is_large = dead_bytes * _LARGE > sealed_bytes
    return counts, types, (sentence(dead_bytes, sealed_bytes, types),) if is_large else ()


def sentence(dead_bytes: int, sealed_bytes: int, types: Sequence[TypeCount]) -> str:
    """What to do about it. Pure."""
    named = ", ".join(f"{one.objects:,} {one.name}" for one in types[:_NAMED])
    return (
        f"{dead_bytes / 1e6:.1f} of {sealed_bytes / 1e6:.1f} MB that earlier seals keep are not "
        f"used any more ({named}): restart the server, or replace data before its first seal"
    )
