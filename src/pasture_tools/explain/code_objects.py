"""Code objects in the memory of a process: where those lie that the seal gathered, and their units.

Gathered ones lie in no block of an allocator, so each is found by the pointer to its type, and ends
where its instructions do. Knows the instruction set of the interpreter that runs this alone.
"""

from __future__ import annotations

import importlib
import opcode
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.explain.objects import Objects
from pasture_tools.explain.recognition import gather
from pasture_tools.explain.regions import is_interpreter
from pasture_tools.proc.address_space import WORD_BYTES, Array

COUNTER, CACHE, OPCODE = 0, 1, 2
_UNIT_BYTES = 2
_STEP_BYTES = 16
"""Where copies start: `COPY_ALIGNMENT` in src/native/seal/hotcode.c."""

_MAX_UNITS = 1 << 21
_BEFORE_BYTES = 1 << 16
"""Where a page begins within a code object, its head is most likely no farther back."""

_BATCH_OS_PAGES = (8 << 20) // OS_PAGE_BYTES


def find_codes(objects: Objects, os_pages: Array) -> tuple[Array, Array, Array]:
    """Code objects that have a byte in some OS pages (addresses, uint64, ascending).

    Returns:
        Address, end and type of each, uint64, ascending; ends never pass the next address.
    """
    found = [np.zeros((2, 0), dtype=np.uint64)]
    back = np.arange(-(_BEFORE_BYTES // OS_PAGE_BYTES), 1) * OS_PAGE_BYTES
    near = np.unique((os_pages.astype(np.int64)[:, None] + back[None, :]).astype(np.uint64))
    for first in range(0, len(near), _BATCH_OS_PAGES):
        found.append(_heads(objects, near[first : first + _BATCH_OS_PAGES]))
    starts, types = np.concatenate(found, axis=1)
    [sizes] = gather(objects.space, starts, [objects.fields["object"]["ob_size"]])
    units = sizes & np.uint64(0xFFFFFFFF)
    possible = (units > 0) & (units <= _MAX_UNITS)
    starts, types, units = starts[possible], types[possible], units[possible]
    head = objects.fields["code"]["co_code_adaptive"]
    ends = starts + np.uint64(head) + units * np.uint64(objects.fields["(code)"]["unit_bytes"])
    ends[:-1] = np.minimum(ends[:-1], starts[1:])
    return starts, ends, types


def _heads(objects: Objects, os_pages: Array) -> Array:
    """Addresses of code objects that begin in some pages, and their types: two rows."""
    rows = objects.space.os_pages_there(os_pages)
    offset = objects.fields["object"]["ob_type"] // WORD_BYTES
    words = rows[:, offset :: _STEP_BYTES // WORD_BYTES]
    # Where the interpreter's own data lies, and with it the type of code.
    own = [m for m in objects.space.mappings if m.is_file and is_interpreter(m.path)]
    low, high = min((m.start for m in own), default=0), max((m.end for m in own), default=0)
    page, place = np.nonzero((words >= np.uint64(low)) & (words < np.uint64(high)))
    types = words[page, place]
    found = {t: objects.type_at(t) for t in np.unique(types).tolist()}
    codes = [t for t, info in found.items() if info is not None and info.name == "code"]
    chosen = np.isin(types, np.array(codes, dtype=np.uint64))
    starts = os_pages[page[chosen]] + place[chosen].astype(np.uint64) * np.uint64(_STEP_BYTES)
    return np.stack((starts, types[chosen]))


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
    """The kind of each 2-byte unit, `COUNTER`, `CACHE` or `OPCODE`; uint8."""
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
    """Whether only counters differ, for each 8-byte word of one code object's instructions.

    Args:
        pad_bytes: between the last multiple of 8 and their address.
    """
    units = parts(before)
    old, new = np.frombuffer(before, np.uint16), np.frombuffer(after, np.uint16)
    other = np.pad((old != new) & (units != COUNTER), (pad_bytes // _UNIT_BYTES, 0))
    return ~np.pad(other, (0, -len(other) % 4)).reshape(-1, 4).any(axis=1)
