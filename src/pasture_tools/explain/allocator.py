"""pymalloc's blocks: whether a word of memory is free or in use.

A pool is recognised by its header alone (`proc.pymalloc`). Its layout is that of the interpreter
that runs this: it is the same from 3.11 to 3.15.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.explain.distinct import floor_to, of_ascending
from pasture_tools.proc.address_space import WORD_BYTES, AddressSpace, Array, read_os_pages
from pasture_tools.proc.pymalloc import PoolLayout, own_pools

_NO_POOLS = PoolLayout(
    OS_PAGE_BYTES, WORD_BYTES, WORD_BYTES, 0, used=0, free=0, size_class=0, next=0, last=0
)
"""Without a size class no memory is a pool."""

_LAYOUT = own_pools() or _NO_POOLS
POOL_BYTES, HEADER_BYTES = _LAYOUT.pool_bytes, _LAYOUT.header_bytes
_POOL_WORDS = POOL_BYTES // WORD_BYTES

PIECE_BYTES = min(POOL_BYTES, OS_PAGE_BYTES)
"""The largest part of an OS page that lies in one pool, and of a pool that lies in one OS page."""


@dataclass(frozen=True, slots=True)
class Pools:
    """Pools at some addresses, each array one entry a pool."""

    addresses: Array  # uint64, ascending, multiples of `POOL_BYTES`
    valid: Array  # whether there is a pool
    block_bytes: Array  # int64; 1 without one
    used: Array  # int64, blocks handed out
    free: Array  # bool, one row a pool, one column a block: free, or never used

    def index(self, addresses: Array) -> Array:
        """Index of the valid pool that holds each address, -1 for none."""
        bases = floor_to(POOL_BYTES, addresses)
        if not len(self.addresses):
            return np.full(len(addresses), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.addresses, bases), len(self.addresses) - 1)
        held = (self.addresses[at] == bases) & self.valid[at]
        return np.where(held, at, -1).astype(np.int64)

    def blocks(self, index: Array, addresses: Array) -> Array:
        """Number of the block that holds each address; -1 in a header."""
        offsets = addresses.astype(np.int64) & (POOL_BYTES - 1)
        numbers = (offsets - HEADER_BYTES) // self.block_bytes[index]
        return np.where(offsets < HEADER_BYTES, -1, numbers)


def pool_bases(addresses: Array) -> Array:
    """Where pools that hold the addresses (ascending) would start: distinct, ascending."""
    return of_ascending(floor_to(POOL_BYTES, addresses))


def pieces_of(os_pages: Array) -> Array:
    """The pieces that pages (ascending) consist of, by their addresses, ascending."""
    offsets = np.arange(0, OS_PAGE_BYTES, PIECE_BYTES, dtype=np.uint64)
    return (os_pages[:, None] + offsets[None, :]).reshape(-1)


def read_pools(
    space: AddressSpace, bases: Array, os_pages: Array | None = None, rows: Array | None = None
) -> Pools:
    """Read the pools at `bases` and follow their lists of free blocks.

    Args:
        os_pages, rows: pages of that space that were read already, ascending, and their words.
    """
    pieces = (bases[:, None] + np.arange(0, POOL_BYTES, PIECE_BYTES, dtype=np.uint64)).reshape(-1)
    starts = floor_to(OS_PAGE_BYTES, pieces)
    pages = of_ascending(starts)
    words = _read_os_pages(space, pages, os_pages, rows)
    at = np.searchsorted(pages, starts) * (OS_PAGE_BYTES // PIECE_BYTES)
    at += (pieces - starts).astype(np.int64) // PIECE_BYTES
    words = words.reshape(-1, PIECE_BYTES // WORD_BYTES)[at]
    return decode_pools(bases, words.reshape(len(bases), _POOL_WORDS))


def _read_os_pages(
    space: AddressSpace, pages: Array, os_pages: Array | None, rows: Array | None
) -> Array:
    """The words of pages, one row each: out of those that were read already, or the process."""
    if os_pages is None or rows is None or not len(os_pages):
        return space.os_pages_there(pages)
    at = np.minimum(np.searchsorted(os_pages, pages), len(os_pages) - 1)
    words = rows[at]
    unknown = np.flatnonzero(os_pages[at] != pages)
    words[unknown] = space.os_pages_there(pages[unknown])
    return words


def decode_pools(bases: Array, words: Array) -> Pools:
    """Pools at addresses (uint64, ascending), from one row of `POOL_BYTES` (uint64) each."""
    used, block, next_offset, valid = _decode_headers(words)
    block = np.where(valid, block, 1)
    free = _free_blocks(bases, words, valid, block)
    numbers = np.arange(_LAYOUT.max_blocks)
    never_used = HEADER_BYTES + numbers[None, :] * block[:, None] >= next_offset[:, None]
    free |= (never_used | (used == 0)[:, None]) & valid[:, None]
    return Pools(bases, valid, block, used, free)


def _decode_headers(words: Array) -> tuple[Array, Array, Array, Array]:
    """Blocks in use, bytes of a block, offset of what was never used; and whether it is a pool."""
    used = _half_words(words, _LAYOUT.used)
    size_class = _half_words(words, _LAYOUT.size_class)
    next_offset = _half_words(words, _LAYOUT.next)
    last_offset = _half_words(words, _LAYOUT.last)
    block = (np.clip(size_class, 0, max(0, _LAYOUT.classes - 1)) + 1) * _LAYOUT.step_bytes
    valid = (
        (size_class < _LAYOUT.classes)
        & (last_offset == POOL_BYTES - block)
        & (next_offset >= HEADER_BYTES + block)
        & (next_offset <= POOL_BYTES)
        & ((next_offset - HEADER_BYTES) % block == 0)
        & (used <= (POOL_BYTES - HEADER_BYTES) // block)
    )
    return used, block, next_offset, valid


def _half_words(words: Array, offset: int) -> Array:
    shift = np.uint64(offset % WORD_BYTES * 8)
    return (words[:, offset // WORD_BYTES] >> shift & np.uint64(0xFFFFFFFF)).astype(np.int64)


def pool_addresses(space: AddressSpace) -> Array:
    """Addresses of all pools of a process, ascending. Reads no page that it does not have."""
    found = [np.zeros(0, dtype=np.uint64)]
    for mapping in space.mappings:
        if not mapping.path and mapping.end - mapping.start >= POOL_BYTES:
            pages = read_os_pages(space.pid, mapping)
            pieces = pieces_of(pages.addresses[pages.present | pages.swapped])
            bases = pieces[pieces % np.uint64(POOL_BYTES) == 0]
            heads = b"".join(
                space.read(base, HEADER_BYTES).ljust(HEADER_BYTES, b"\0") for base in bases.tolist()
            )
            words = np.frombuffer(heads, dtype=np.uint64).reshape(-1, HEADER_BYTES // WORD_BYTES)
            found.append(bases[_decode_headers(words)[3]])
    return np.concatenate(found)


def _free_blocks(bases: Array, words: Array, valid: Array, block: Array) -> Array:
    """Follow the lists of free blocks of all pools at once."""
    free = np.zeros((len(bases), _LAYOUT.max_blocks), dtype=bool)
    rows = np.flatnonzero(valid)
    following = words[rows, _LAYOUT.free // WORD_BYTES]
    for _ in range(_LAYOUT.max_blocks):
        offset = following - bases[rows]
        number = (offset.astype(np.int64) - HEADER_BYTES) // block[rows]
        inside = (
            (following != 0)
            & (offset >= HEADER_BYTES)
            & (offset <= POOL_BYTES - _LAYOUT.step_bytes)
        )
        inside &= (number >= 0) & (number < _LAYOUT.max_blocks)
        rows, number, offset = rows[inside], number[inside], offset[inside]
        if not len(rows):
            break
        fresh = ~free[rows, number]
        rows, number, offset = rows[fresh], number[fresh], offset[fresh]
        free[rows, number] = True
        following = words[rows, (offset // np.uint64(WORD_BYTES)).astype(np.int64)]
    return free
