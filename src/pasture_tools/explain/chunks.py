"""glibc's chunks: whether a word of memory is free or in use.

A process has a main heap, and one for each of the arenas of its threads, at a multiple of 64 MB.

Source: glibc malloc/malloc.c (struct malloc_chunk, malloc_state), malloc/arena.c (heap_info).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.explain.distinct import holding
from pasture_tools.proc.address_space import AddressSpace, Array

_CHUNK_FLAGS = 7
_PREVIOUS_IN_USE = 1
_MIN_CHUNK_BYTES = 32
_WINDOW_BYTES = 1 << 22

_HEAP_BYTES = 64 << 20  # HEAP_MAX_SIZE where a long has 8 bytes
_HEAP_INFO = struct.Struct("<QQQQ")  # its arena, the heap before it, size, size made writable
_HEAP_INFO_BYTES = (0x20, 0x30)  # before glibc 2.35, and since
_STATE_BYTES = range(0x200, 0xF00, 16)
"""How many the state of an arena may take, the room up to the first chunk included."""

_TOP_WITHIN_BYTES = 0x80  # bytes of the state, in any version

_MAX_LOOKS = 1 << 16
_TRIES = 8  # a thread that allocates meanwhile moves the end and the top of its heap
_MAX_HEAPS = 64
_ENOUGH_CHUNKS = 1000  # in a row: no other memory looks so


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of glibc's heaps in ascending order, each array one entry a chunk."""

    starts: Array  # uint64, of the header
    in_use: Array  # bool; a chunk in a thread's cache counts as in use
    ends: Array  # uint64, where the next chunk begins, or the heap ends
    tops: Array  # bool, whether it is the last of its heap, from which malloc cuts chunks

    def index(self, addresses: Array) -> Array:
        """Index of the chunk that holds each address, -1 for none."""
        return holding(self.starts, self.ends, addresses)


NO_CHUNKS = Chunks(
    *(np.zeros(0, np.uint64), np.zeros(0, bool)), *(np.zeros(0, np.uint64), np.zeros(0, bool))
)


@dataclass(frozen=True, slots=True)
class Heap:
    # start, end: addresses, the end excluded.
    start: int
    end: int
    first: int  # address of the first chunk


def find_heaps(space: AddressSpace) -> tuple[Heap, ...]:
    """The main heap of a process and those of threads, ascending; none where glibc owns none."""
    # The kernel may cut it in two, between what was there at a fork and what came after.
    parts = [mapping for mapping in space.mappings if mapping.path == "[heap]"]
    main = [Heap(parts[0].start, parts[-1].end, parts[0].start)] if parts else []
    others = islice(_heaps_of_threads(space), _MAX_HEAPS)
    return tuple(sorted((*main, *others), key=lambda heap: heap.start))


def _heaps_of_threads(space: AddressSpace) -> Iterator[Heap]:
    for start in islice(_possible_heaps(space), _MAX_LOOKS):
        for _ in range(_TRIES):
            arena, before, size, writable = _HEAP_INFO.unpack(_read_there(space, start, 32))
            head = arena % _HEAP_BYTES
            is_first = arena - start == head
            is_heap = 0 < size <= writable <= _HEAP_BYTES and not (size | writable) % OS_PAGE_BYTES
            if not is_heap or head not in _HEAP_INFO_BYTES or is_first != (before == 0):
                break
            first = _first_chunk(space, arena, start + size) if is_first else start + head
            if first is not None:
                yield Heap(start, start + size, first)
                break


def _possible_heaps(space: AddressSpace) -> Iterator[int]:
    for mapping in space.mappings:
        if not mapping.path and mapping.permissions.startswith("rw"):
            start = -(-mapping.start // _HEAP_BYTES) * _HEAP_BYTES
            yield from range(start, mapping.end, _HEAP_BYTES)


def _first_chunk(space: AddressSpace, arena: int, end: int) -> int | None:
    """The first chunk follows the state of the arena, whose size differs between versions.

    A walk from the first chunk ends at the chunk that the arena calls its top, or, if that is in a
    later heap, at the end of this one. A long part of that walk is proof enough.
    """
    words = struct.unpack(
        f"<{_STATE_BYTES.stop // 8}Q", _read_there(space, arena, _STATE_BYTES.stop)
    )
    state = words[: _TOP_WITHIN_BYTES // 8]
    for size in _STATE_BYTES:
        step = words[size // 8 + 1] & ~_CHUNK_FLAGS
        if step < _MIN_CHUNK_BYTES or arena + size + step > end:
            continue  # a wrong size is found before anything is read
        starts, _ = _walk(space, arena + size, end, _ENOUGH_CHUNKS)
        if len(starts) < 2:
            continue
        is_last = starts[-1] in state or starts[-1] + 2 * _MIN_CHUNK_BYTES >= end
        if is_last or len(starts) == _ENOUGH_CHUNKS:
            return arena + size
    return None


def read_chunks(space: AddressSpace) -> Chunks:
    """Walk through the heaps of a process; empty where glibc does not own them."""
    found = [_chunks_of(space, heap) for heap in find_heaps(space)]
    some = [chunks for chunks in found if len(chunks.starts)]
    if not some:
        return NO_CHUNKS
    return Chunks(
        np.concatenate([chunks.starts for chunks in some]),
        np.concatenate([chunks.in_use for chunks in some]),
        np.concatenate([chunks.ends for chunks in some]),
        np.concatenate([chunks.tops for chunks in some]),
    )


def _chunks_of(space: AddressSpace, heap: Heap) -> Chunks:
    starts, flags = _walk(space, heap.first, heap.end)
    if not len(starts):
        return NO_CHUNKS
    in_use = np.zeros(len(starts), dtype=bool)
    in_use[:-1] = np.frombuffer(bytes(flags[1:]), dtype=np.uint8) != 0
    tops = np.zeros(len(starts), dtype=bool)
    tops[-1] = True
    found = np.frombuffer(starts.tobytes(), dtype=np.uint64)
    ends = np.append(found[1:], np.uint64(heap.end))
    return Chunks(found, in_use, ends, tops)


def _walk(
    space: AddressSpace, address: int, end: int, most: int = 1 << 32
) -> tuple[array[int], bytearray]:
    """Starts of chunks, and of each whether the one before it is in use."""
    starts, flags = array("Q"), bytearray()
    window, base = b"", 0
    while address + 16 <= end and len(starts) < most:
        if not base <= address <= base + len(window) - 16:
            base, window = address, _read_there(space, address, min(_WINDOW_BYTES, end - address))
        size = int.from_bytes(window[address - base + 8 : address - base + 16], "little")
        flags.append(size & _PREVIOUS_IN_USE)
        starts.append(address)
        step = size & ~_CHUNK_FLAGS
        if step < _MIN_CHUNK_BYTES or step % 16 or address + step > end:
            if len(starts) < 3:  # no header of glibc's: another allocator, or none
                return array("Q"), bytearray()
            break
        address += step
    return starts, flags


def _read_there(space: AddressSpace, address: int, size_bytes: int) -> bytes:
    """Bytes at an address; zeros where the process has no page."""
    start = address // OS_PAGE_BYTES * OS_PAGE_BYTES
    pages = np.arange(start, address + size_bytes, OS_PAGE_BYTES, dtype=np.uint64)
    found: bytes = space.os_pages_there(pages).tobytes()
    return found[address - start : address - start + size_bytes]
