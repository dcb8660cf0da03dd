"""Objects recognised from memory, by the first words of a block.

An object has a pointer to its type at one of three places of its block, depending on what
its type puts before it. The place must suit the type, and the type must be a type object.

Most blocks are of a type that was met before. The rest mostly hold pointers to other blocks of
pymalloc's in those places. Types are larger than its blocks, so none lies there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pasture.interpreter import Fields
from pasture.proc.os_page import ADDRESS_END, OS_PAGE_BYTES
from pasture_tools.explain.allocator import POOL_BYTES
from pasture_tools.explain.distinct import floor_to, of_ascending
from pasture_tools.explain.objects import Objects, TypeInfo
from pasture_tools.proc.address_space import AddressSpace, Array

_BATCH_OS_PAGES = (16 << 20) // OS_PAGE_BYTES


@dataclass(frozen=True, slots=True)
class Recognised:
    """Types found in blocks, each array one entry a block."""

    starts: Array  # uint64, of the blocks, ascending
    types: Array  # uint64, address of the type; 0 if the block holds no object
    prefixes: Array  # int64, bytes before the object


def recognise(objects: Objects, starts: Array) -> Recognised:
    """Look for objects at the starts of blocks (uint64, ascending, distinct)."""
    found = Recognised(
        starts, np.zeros(len(starts), dtype=np.uint64), np.zeros(len(starts), dtype=np.int64)
    )
    type_offset = objects.fields["object"]["ob_type"]
    candidates = gather(
        objects.space, starts, [prefix + type_offset for prefix in _prefixes(objects.fields)]
    )
    left = np.arange(len(starts))
    left = _match(objects, candidates, found, left)
    _meet(objects, np.concatenate([words[left] for words in candidates]))
    _match(objects, candidates, found, left)
    return found


def _match(objects: Objects, candidates: list[Array], found: Recognised, left: Array) -> Array:
    """Set the type of those blocks that are of one known so far; returns what is left."""
    known = np.array(sorted(objects.met), dtype=np.uint64)
    if not len(known):
        return left
    before, prefixes = objects.fields["(before)"], _prefixes(objects.fields)
    fitting = np.array([[_fits(objects.met[int(t)], p, before) for t in known] for p in prefixes])
    for prefix, words, fits in zip(prefixes, candidates, fitting, strict=True):
        at = np.minimum(np.searchsorted(known, words[left]), len(known) - 1)
        chosen = (known[at] == words[left]) & fits[at]
        found.types[left[chosen]] = words[left[chosen]]
        found.prefixes[left[chosen]] = prefix
        left = left[~chosen]
    return left


def _meet(objects: Objects, words: Array) -> None:
    """Learn of the types that some words point to."""
    could = (words >= np.uint64(OS_PAGE_BYTES)) & (words < np.uint64(ADDRESS_END))
    words = words[could & (words % np.uint64(8) == 0)]
    pools = objects.pools
    if len(pools):
        bases = floor_to(POOL_BYTES, words)
        words = words[pools[np.minimum(np.searchsorted(pools, bases), len(pools) - 1)] != bases]
    for address in np.unique(words).tolist():
        info = objects.type_at(address)
        if info is not None:
            objects.met[address] = info


def _prefixes(fields: Fields) -> tuple[int, ...]:
    """Bytes that may precede an object: none, a GC header, and more."""
    return 0, fields["(before)"]["gc"], fields["(before)"]["weakrefs"]


def _fits(info: TypeInfo, prefix: int, before: Mapping[str, int]) -> bool:
    """Whether objects of a type have that much before them."""
    header = before["gc"]
    # A type may be without a header while its heap types have one: both places are right.
    if "TYPE_SUBCLASS" in info.flags:
        return prefix in (0, header)
    expected = header if "HAVE_GC" in info.flags else 0
    if not info.flags.isdisjoint(("MANAGED_DICT", "MANAGED_WEAKREF")):
        expected += before["weakrefs"] - header
    return prefix == expected


def gather(space: AddressSpace, starts: Array, offsets: Sequence[int]) -> list[Array]:
    """The words at some offsets from addresses, an array for each offset; 0 where none is mapped.

    Args:
        starts: multiples of 8, uint64, ascending.
        offsets: in bytes, ascending; less than a page.
    """
    found = [np.zeros(len(starts), dtype=np.uint64) for _ in offsets]
    places = [starts + np.uint64(offset) for offset in offsets]
    bases = [floor_to(OS_PAGE_BYTES, addresses) for addresses in places]
    pages = np.union1d(of_ascending(bases[0]), of_ascending(bases[-1]))
    for first in range(0, len(pages), _BATCH_OS_PAGES):
        part = pages[first : first + _BATCH_OS_PAGES]
        rows = space.os_pages(part)
        for words, addresses, base in zip(found, places, bases, strict=True):
            low, high = np.searchsorted(base, (part[0], part[-1] + np.uint64(1)))
            at = np.searchsorted(part, base[low:high])
            columns = ((addresses[low:high] - base[low:high]) // np.uint64(8)).astype(np.int64)
            words[low:high] = rows[at, columns]
    return found
