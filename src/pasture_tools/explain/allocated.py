"""Words that differ, by the state of their blocks: free, reused, headers.

Asks pymalloc's pools and glibc's chunks, in parent and worker. A word in a block that both
have in use is left for the objects, and the start of its block is noted.
"""

from __future__ import annotations

import numpy as np

from pasture_tools.explain import allocator
from pasture_tools.explain.allocator import HEADER_BYTES, Pools
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.chunks import Chunks, read_chunks
from pasture_tools.explain.fields import Label
from pasture_tools.explain.regions import Region
from pasture_tools.explain.words import Words
from pasture_tools.proc.address_space import AddressSpace, Array


class Allocated:
    """Decides words by the state of the blocks that they lie in."""

    def __init__(self, parent: AddressSpace, worker: AddressSpace) -> None:
        self._parent, self._worker = parent, worker
        self._chunks: tuple[Chunks, Chunks] | None = None

    def decide(self, words: Words) -> None:
        """Decide words of headers and of free memory; note the blocks of the rest."""
        self._by_pool(words)
        self._by_chunk(words)

    def chunks(self) -> tuple[Chunks, Chunks]:
        """The chunks of the heaps of parent and worker, read once."""
        if self._chunks is None:
            self._chunks = read_chunks(self._parent), read_chunks(self._worker)
        return self._chunks

    def _by_pool(self, words: Words) -> None:
        at = np.flatnonzero(words.open & (words.regions == Region.ANONYMOUS))
        if not len(at):
            return
        addresses = words.batch.addresses[at]
        bases = allocator.pool_bases(addresses)
        batch = words.batch
        before = allocator.read_pools(self._parent, bases, batch.os_pages, batch.before)
        after = allocator.read_pools(self._worker, bases, batch.os_pages, batch.after)
        index = before.index(addresses)
        fresh = (index < 0) & (after.index(addresses) >= 0) & (words.extents[at] < 0)
        words.set(at[fresh], Cause.FREE_MEMORY, Label("pymalloc", "free pool"))
        held = index >= 0
        self._in_pools(words, at[held], index[held], before, after)

    def _in_pools(self, words: Words, at: Array, index: Array, before: Pools, after: Pools) -> None:
        addresses = words.batch.addresses[at]
        block = before.blocks(index, addresses)
        head = block < 0
        was_free = before.free[index, np.maximum(block, 0)] & ~head
        same = after.valid[index] & (after.block_bytes[index] == before.block_bytes[index])
        is_free = after.free[index, np.maximum(block, 0)]
        used = before.used[index] > 0
        pool = Label("pymalloc", "pool header")
        words.set(at[head & used], Cause.POOL_HEADER, pool)
        dense = (was_free | head) & ~used
        words.set(at[dense], Cause.FREE_MEMORY, Label("pymalloc", "free pool"))
        links = was_free & used & same & is_free
        words.set(at[links], Cause.FREE_LIST, Label("pymalloc", "free block"))
        holes = was_free & used & ~(same & is_free)
        words.set(at[holes], Cause.HOLE, Label("pymalloc", "block in a shared pool"))
        gone = ~head & ~was_free & (~same | is_free)
        words.set(at[gone], Cause.FREED, Label("pymalloc", "block freed"))
        live = ~head & ~was_free & same & ~is_free
        starts = before.addresses[index] + (
            HEADER_BYTES + block * before.block_bytes[index]
        ).astype(np.uint64)
        words.block_starts[at[live]] = starts[live]

    def _by_chunk(self, words: Words) -> None:
        at = np.flatnonzero(words.open & (words.regions == Region.HEAP))
        if not len(at):
            return
        before, after = self.chunks()
        # The word before a header belongs to the chunk before it while that is in use.
        addresses = words.batch.addresses[at] - np.uint64(8)
        index, later = before.index(addresses), after.index(addresses)
        known = (index >= 0) & bool(len(after.starts))
        at, index, later, addresses = at[known], index[known], later[known], addresses[known]
        if not len(at):
            return
        start = before.starts[index]
        top = before.tops[index]
        moved = (later < 0) | (after.starts[later] != start)
        is_used = after.in_use[later] | after.tops[later]
        head = (addresses == start) & ~top
        was_used = before.in_use[index]
        words.set(at[top], Cause.FREE_MEMORY, Label("malloc", "top of the heap"))
        words.set(at[head], Cause.CHUNK_HEADER, Label("malloc", "chunk header"))
        reused = ~was_used & (moved | is_used)
        words.set(at[reused], Cause.HOLE, Label("malloc", "free chunk"))
        words.set(at[~was_used], Cause.FREE_LIST, Label("malloc", "free chunk"))
        gone = was_used & (moved | ~is_used)
        words.set(at[gone], Cause.FREED, Label("malloc", "chunk freed"))
        words.block_starts[at] = start + np.uint64(16)
