"""Objects and their storage in some OS pages, as a snapshot has them, in the order of addresses.

Keeps in memory only what lies in pages that are asked about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.explain.distinct import holding, of_ascending
from pasture_tools.explain.snapshot import CHUNK_RECORDS, Snapshot
from pasture_tools.proc.address_space import Array

_PAGE_BITS = np.uint64(OS_PAGE_BYTES.bit_length() - 1)
_PART_BITS = np.uint64(6)  # log2 of pages
_IN_PART = np.uint64((1 << 6) - 1)
_NO_WINDOW = 0xFFFF


@dataclass(frozen=True, slots=True)
class Extents:
    """Pieces of memory in ascending order, each array one entry a piece."""

    # starts, ends: uint64; the prefix of an object is part of it.
    starts: Array
    ends: Array
    addresses: Array  # uint64, of the object, or of the start of other memory
    types: Array  # uint64, address of the type; 0 for memory of other kinds
    kinds: Array  # uint8, of `Kind`
    numbers: Array  # int64, of the record in the snapshot; -1 without one

    def lookup(self, addresses: Array) -> Array:
        """Index of the piece that holds each address, -1 for none."""
        return holding(self.starts, self.ends, addresses)


class PageRanks:
    """How many of some OS pages (uint64, ascending, at least one) lie before an address.

    A table, since a snapshot asks it twice for each of its records.
    """

    def __init__(self, os_pages: Array) -> None:
        numbers = os_pages >> _PAGE_BITS
        self._parts = of_ascending(numbers >> _PART_BITS)
        starts = self._parts << _PART_BITS
        wanted = starts[:, None] + np.arange(int(_IN_PART) + 1, dtype=np.uint64)[None, :]
        self._ranks = np.searchsorted(numbers, wanted).astype(np.int32)
        self._is_there = np.searchsorted(numbers, wanted, side="right") > self._ranks
        self._last = np.append(self._ranks[:, 0], len(os_pages)).astype(np.int32)

    def before(self, addresses: Array) -> Array:
        """Number of the pages below the page of each address, int64."""
        return self.look(addresses)[0]

    def look(self, addresses: Array) -> tuple[Array, Array]:
        """Number of the pages below the page of each address, int64; whether it is one of them."""
        numbers = addresses >> _PAGE_BITS
        parts = numbers >> _PART_BITS
        at = np.searchsorted(self._parts, parts)
        inside = np.minimum(at, len(self._parts) - 1)
        place = inside * (int(_IN_PART) + 1) + (numbers & _IN_PART).view(np.int64)
        found, is_there = self._ranks.reshape(-1)[place], self._is_there.reshape(-1)[place]
        outside = np.flatnonzero(self._parts[inside] != parts)
        found[outside] = self._last[at[outside]]
        is_there[outside] = False
        return found.astype(np.int64), is_there


class Windows:
    """A snapshot cut into windows of `size` OS pages, so that memory stays bounded.

    Keeps 2 bytes a record; the records themselves are read from the file when their window
    comes, and let go of after it.
    """

    def __init__(self, snapshot: Snapshot, os_pages: Array, size: int) -> None:
        self._snapshot = snapshot
        self._window_of = np.full(len(snapshot.records), _NO_WINDOW, dtype=np.uint16)
        spanning = []
        if not len(os_pages):
            os_pages = np.full(1, np.iinfo(np.uint64).max)  # in which no record lies
        ranks = PageRanks(os_pages)
        for first in range(0, len(snapshot.records), CHUNK_RECORDS):
            part = snapshot.records.read(first, CHUNK_RECORDS)
            low, high = _places(part, ranks)
            start, end = low // size, high // size
            single = (low <= high) & (start == end)
            self._window_of[first : first + len(part)][single] = start[single]
            spanning.append(np.flatnonzero((low <= high) & ~single) + first)
        self._spanning = np.concatenate(spanning) if spanning else np.zeros(0, np.int64)

    def extents(self, window: int) -> Extents:
        """Extents in the pages of one window, and those in several windows."""
        numbers = np.concatenate((np.flatnonzero(self._window_of == window), self._spanning))
        numbers.sort()
        return Extents(*_sorted(self._snapshot.records.chosen(numbers), numbers))


def extents_in(snapshot: Snapshot, os_pages: Array) -> Extents:
    """All that a snapshot has in some OS pages, for few of them."""
    return (
        Windows(snapshot, os_pages, max(1, len(os_pages))).extents(0) if len(os_pages) else NOTHING
    )


def _sorted(records: Array, numbers: Array) -> tuple[Array, ...]:
    starts = records["address"] - records["prefix"]
    order = np.argsort(starts, kind="stable")
    records, numbers = records[order], numbers[order]
    return (
        starts[order],
        records["address"] + records["bytes"],
        records["address"].copy(),
        records["type"].copy(),
        records["kind"].astype(np.uint8),
        numbers,
    )


def _places(records: Array, ranks: PageRanks) -> tuple[Array, Array]:
    """Index of the first and last page that each record has a byte in; last < first: none."""
    address = records["address"]
    first = address - records["prefix"]
    last = address + np.maximum(records["bytes"], 1) - np.uint64(1)
    low, is_there = ranks.look(first)
    high = low + is_there - 1
    several = np.flatnonzero((first ^ last) >> _PAGE_BITS)  # records in several pages: few
    high[several] = ranks.before(last[several] + np.uint64(OS_PAGE_BYTES)) - 1
    return low, high


_EMPTY = np.zeros(0, dtype=np.uint64)
NOTHING = Extents(_EMPTY, _EMPTY, _EMPTY, _EMPTY, _EMPTY.astype(np.uint8), _EMPTY.astype(np.int64))
"""Extents without a snapshot."""
