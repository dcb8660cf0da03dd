"""Objects recognised from memory: what the first words of a block say it holds.

An object has a pointer to its type at one of three places of its block, depending on what
its type puts before it. The place and the type must agree, and the type must be one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pasture.explain.objects import Objects
from pasture.proc.address_space import AddressSpace, Array
from pasture.proc.os_page import ADDRESS_END, OS_PAGE_BYTES

_PREHEADER = (1 << 3) | (1 << 4)
_PREFIXES = (0, 16, 32)
_BATCH_OS_PAGES = (16 << 20) // OS_PAGE_BYTES


@dataclass(frozen=True, slots=True)
class Recognised:
    """What was found in blocks, each array one entry a block.

    Attributes:
        starts: uint64, of the blocks, ascending.
        types: uint64, address of the type; 0 if the block holds no object.
        prefixes: int64, bytes before the object.
    """

    starts: Array
    types: Array
    prefixes: Array


def recognise(objects: Objects, starts: Array) -> Recognised:
    """Look for objects at the starts of blocks (uint64, ascending, distinct)."""
    types = np.zeros(len(starts), dtype=np.uint64)
    prefixes = np.zeros(len(starts), dtype=np.int64)
    for prefix in _PREFIXES:
        candidates = gather(objects.space, starts + np.uint64(prefix + 8))
        distinct, which = np.unique(candidates, return_inverse=True)
        fits = np.array([_fits(objects, int(address), prefix) for address in distinct])
        chosen = fits[which] & (types == 0) if len(distinct) else types != types
        types[chosen] = candidates[chosen]
        prefixes[chosen] = prefix
    return Recognised(starts, types, prefixes)


def _fits(objects: Objects, address: int, prefix: int) -> bool:
    """Whether objects of the type at an address have that much before them."""
    if address % 8 or not OS_PAGE_BYTES <= address < ADDRESS_END:
        return False
    info = objects.type_at(address)
    if info is None:
        return False
    # A type may be without a header while its heap types have one: both places are right.
    if info.flags & 1 << 31:
        return prefix in (0, 16)
    expected = (16 if info.has_gc else 0) + (16 if info.flags & _PREHEADER else 0)
    return prefix == expected


def gather(space: AddressSpace, addresses: Array) -> Array:
    """The words at addresses (multiples of 8); 0 where nothing is mapped."""
    bases = addresses & np.uint64(~(OS_PAGE_BYTES - 1) & (2**64 - 1))
    pages = np.unique(bases)
    found = np.zeros(len(addresses), dtype=np.uint64)
    for first in range(0, len(pages), _BATCH_OS_PAGES):
        part = pages[first : first + _BATCH_OS_PAGES]
        rows = space.os_pages(part)
        inside = (bases >= part[0]) & (bases <= part[-1])
        at = np.searchsorted(part, bases[inside])
        columns = ((addresses[inside] - bases[inside]) // np.uint64(8)).astype(np.int64)
        found[inside] = rows[at, columns]
    return found
