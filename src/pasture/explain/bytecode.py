"""Which parts of a code object's instructions are counters, caches and opcodes.

Knows the instruction set of the interpreter that runs this, and of no other.
"""

from __future__ import annotations

import importlib
import opcode
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from pasture.proc.address_space import Array

COUNTER, CACHE, OPCODE = 0, 1, 2
_UNIT_BYTES = 2


@lru_cache(maxsize=1)
def cache_units() -> tuple[int, ...]:
    """Number of cache entries behind each of the 256 opcodes, specialized ones included."""
    counts: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    families: dict[str, list[str]]
    if sys.version_info >= (3, 13):
        metadata = importlib.import_module("_opcode_metadata")
        families, special = metadata._specializations, metadata._specialized_opmap
        base = {name: counts.get(name, 0) for name in opcode.opmap}
    else:
        families = opcode._specializations  # type: ignore[attr-defined]
        dis: Any = importlib.import_module("dis")
        special = dis._all_opmap
        base = {name: counts[number] for name, number in opcode.opmap.items() if number < 256}
    found = [0] * 256
    for name, number in opcode.opmap.items():
        if number < 256:
            found[number] = base[name]
    for family, names in families.items():
        for name in names:
            found[special[name] & 255] = base.get(family, 0)
    return tuple(found)


def parts(code: bytes) -> Array:
    """What each 2-byte unit is: `COUNTER`, `CACHE` or `OPCODE`; uint8, one a unit."""
    caches = cache_units()
    units = len(code) // _UNIT_BYTES
    found = np.full(units, OPCODE, dtype=np.uint8)
    i = 0
    while i < units:
        count = caches[code[2 * i]]
        if count:
            found[i + 1 : i + 1 + count] = CACHE
            found[i + 1 : i + 2] = COUNTER
        i += 1 + count
    return found


def only_counters(before: bytes, after: bytes, pad_bytes: int) -> Array:
    """For each 8-byte word: whether counters are all that differs in it.

    Args:
        before, after: instructions of the same code object.
        pad_bytes: between the last multiple of 8 and their address.
    """
    units = parts(before)
    old, new = np.frombuffer(before, np.uint16), np.frombuffer(after, np.uint16)
    other = np.pad((old != new) & (units != COUNTER), (pad_bytes // _UNIT_BYTES, 0))
    return ~np.pad(other, (0, -len(other) % 4)).reshape(-1, 4).any(axis=1)
