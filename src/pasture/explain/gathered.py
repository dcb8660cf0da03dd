"""Code objects that lie side by side in memory of their own, as the seal gathers them.

They lie in no block of an allocator, so each is found by the pointer to its type, and ends where
its instructions do.
"""

from __future__ import annotations

import numpy as np

from pasture.explain.distinct import of_ascending
from pasture.explain.objects import Objects, TypeInfo
from pasture.explain.recognition import gather
from pasture.explain.regions import is_interpreter
from pasture.proc.address_space import WORD_BYTES, Array
from pasture.proc.os_page import OS_PAGE_BYTES

_STEP_BYTES = 16
"""Where copies start: `COPY_ALIGNMENT` in src/native/seal/hotcode.c."""

_MAX_UNITS = 1 << 21
_BEFORE_BYTES = 1 << 16
"""Where a page begins within a code object, its head is most likely no farther back."""

_BATCH_OS_PAGES = (8 << 20) // OS_PAGE_BYTES


def find_codes(objects: Objects, os_pages: Array) -> tuple[Array, Array, Array]:
    """Code objects that have a byte in some OS pages.

    Args:
        objects: a reader of the process.
        os_pages: addresses, uint64, ascending.

    Returns:
        Address, end and type of each, uint64, ascending; ends never pass the next address.
    """
    found = [np.zeros((2, 0), dtype=np.uint64)]
    near = _with_those_before(os_pages)
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


def _with_those_before(os_pages: Array) -> Array:
    back = np.arange(-(_BEFORE_BYTES // OS_PAGE_BYTES), 1) * OS_PAGE_BYTES
    return np.unique((os_pages.astype(np.int64)[:, None] + back[None, :]).astype(np.uint64))


def _heads(objects: Objects, os_pages: Array) -> Array:
    """Addresses of code objects that begin in some pages, and their types: two rows."""
    rows = objects.space.os_pages_there(os_pages)
    offset = objects.fields["object"]["ob_type"] // WORD_BYTES
    words = rows[:, offset :: _STEP_BYTES // WORD_BYTES]
    low, high = _interpreter(objects)
    page, place = np.nonzero((words >= np.uint64(low)) & (words < np.uint64(high)))
    types = words[page, place]
    codes = [t for t in np.unique(types).tolist() if _is_code(objects.type_at(t))]
    chosen = np.isin(types, np.array(codes, dtype=np.uint64))
    starts = os_pages[page[chosen]] + place[chosen].astype(np.uint64) * np.uint64(_STEP_BYTES)
    return np.stack((starts, types[chosen]))


def _is_code(info: TypeInfo | None) -> bool:
    return info is not None and info.name == "code"


def _interpreter(objects: Objects) -> tuple[int, int]:
    """Where the interpreter's own data lies, and with it the type of code."""
    own = [m for m in objects.space.mappings if m.is_file and is_interpreter(m.path)]
    return min((m.start for m in own), default=0), max((m.end for m in own), default=0)


def pages_of(addresses: Array) -> Array:
    """Pages of addresses (ascending), distinct."""
    return of_ascending(addresses & np.uint64(~(OS_PAGE_BYTES - 1) & (2**64 - 1)))
