"""A worker's memory that its parent never had: objects by type, free blocks, other memory in use.

Found in the worker alone: its pools, its chunks, and the type pointers of what they hold.
Where no type is recognised nothing is guessed: memory in use is then just that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.explain import allocator
from pasture_tools.explain.allocator import HEADER_BYTES, POOL_BYTES, Pools
from pasture_tools.explain.chunks import Chunks
from pasture_tools.explain.fields import Label
from pasture_tools.explain.objects import Objects
from pasture_tools.explain.recognition import recognise
from pasture_tools.explain.regions import Region, Regions
from pasture_tools.explain.words import Labels
from pasture_tools.proc.address_space import WORD_BYTES, AddressSpace, Array

_BATCH_OS_PAGES = (4 << 20) // OS_PAGE_BYTES
_PAGE_WORDS = OS_PAGE_BYTES // WORD_BYTES

FREE = Label("free blocks", "pymalloc")
FREE_CHUNKS = Label("free chunks", "malloc")
IN_USE = Label("memory in use of pymalloc", "pymalloc")
CHUNKS_IN_USE = Label("memory in use of malloc", "malloc")
_PLACES = {
    Region.STACK: Label("stack", ""),
    Region.ANONYMOUS: Label("mapped memory", ""),
    Region.INTERPRETER: Label("data of the interpreter", ""),
    Region.LIBRARY: Label("data of libraries", ""),
    Region.HEAP: Label("heap of malloc", ""),
}


class NewMemory:
    """Finds what is in new pages of one worker; no objects if its interpreter is not known."""

    def __init__(
        self, worker: AddressSpace, objects: Objects | None, regions: Regions, chunks: Chunks
    ) -> None:
        self._worker, self._objects = worker, objects
        self._regions, self._chunks = regions, chunks
        self._labels = Labels()

    def labels(self) -> list[Label]:
        """Labels by the numbers that `words` gives."""
        return self._labels.all()

    def words(self, os_pages: Array) -> Iterator[tuple[int, Array]]:
        """The number of pages of each batch, and for each of their words the number of a label."""
        for first in range(0, len(os_pages), _BATCH_OS_PAGES):
            pages = os_pages[first : first + _BATCH_OS_PAGES]
            found = np.zeros((len(pages), _PAGE_WORDS), dtype=np.int64)
            kinds = self._regions.lookup(pages)
            for region, label in _PLACES.items():
                found[kinds == region] = self._labels.number(label)
            self._in_pools(pages, found, kinds == Region.ANONYMOUS)
            self._in_chunks(pages, found, kinds == Region.HEAP)
            yield len(pages), found.reshape(-1)

    def _in_pools(self, pages: Array, found: Array, chosen: Array) -> None:
        if not chosen.any():
            return
        pieces = allocator.pieces_of(pages[chosen])
        pools = allocator.read_pools(self._worker, allocator.pool_bases(pieces))
        blocks = self._blocks(pools)
        index = pools.index(pieces)
        held = pieces[index >= 0]
        addresses = _words_of(held, allocator.PIECE_BYTES)
        pool = np.repeat(index[index >= 0], allocator.PIECE_BYTES // WORD_BYTES)
        block = pools.blocks(pool, addresses)
        inside = (block >= 0) & (block < blocks.shape[1])
        numbers = np.full(len(addresses), self._labels.number(FREE), dtype=np.int64)
        numbers[inside] = blocks[pool[inside], block[inside]]
        rows = np.searchsorted(pages, addresses, side="right") - 1
        found[rows, (addresses - pages[rows]).astype(np.int64) // WORD_BYTES] = numbers

    def _blocks(self, pools: Pools) -> Array:
        """The number of a label for each block of each pool."""
        found = np.full(pools.free.shape, self._labels.number(FREE), dtype=np.int64)
        rows, blocks = np.nonzero(~pools.free & pools.valid[:, None])
        offsets = HEADER_BYTES + blocks * pools.block_bytes[rows]
        there = offsets + pools.block_bytes[rows] <= POOL_BYTES
        rows, blocks, offsets = rows[there], blocks[there], offsets[there]
        starts = pools.addresses[rows] + offsets.astype(np.uint64)
        found[rows, blocks] = self._types(starts, IN_USE)
        return found

    def _in_chunks(self, pages: Array, found: Array, chosen: Array) -> None:
        if not chosen.any() or not len(self._chunks.starts):
            return
        held = np.flatnonzero(chosen)
        addresses = _words_of(pages[held], OS_PAGE_BYTES)
        index = self._chunks.index(addresses)
        numbers = np.full(len(addresses), self._labels.number(FREE_CHUNKS), dtype=np.int64)
        used = (index >= 0) & self._chunks.in_use[index]
        met = np.unique(index[used])
        starts = self._chunks.starts[met] + np.uint64(16)
        label_of = np.zeros(len(self._chunks.starts), dtype=np.int64)
        label_of[met] = self._types(starts, CHUNKS_IN_USE)
        numbers[used] = label_of[index[used]]
        found[held] = numbers.reshape(-1, _PAGE_WORDS)

    def _types(self, starts: Array, otherwise: Label) -> Array:
        """Labels of what starts at addresses that are in use (ascending)."""
        numbers = np.full(len(starts), self._labels.number(otherwise), dtype=np.int64)
        if self._objects is None or not len(starts):
            return numbers
        types = recognise(self._objects, starts).types
        for address in np.unique(types[types != 0]).tolist():
            label = Label(self._objects.qualified_type_name(address), "")
            numbers[types == address] = self._labels.number(label)
        return numbers


def _words_of(starts: Array, size_bytes: int) -> Array:
    offsets = np.arange(0, size_bytes, WORD_BYTES, dtype=np.uint64)
    return (starts[:, None] + offsets[None, :]).reshape(-1)
