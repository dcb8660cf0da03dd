"""Chunks of glibc's heaps: the main one, and those of threads."""

import contextlib
import ctypes
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture.proc.maps import Mapping
from pasture_tools.explain.chunks import find_heaps, read_chunks
from pasture_tools.explain.regions import Region, Regions
from pasture_tools.proc.address_space import AddressSpace

needs_glibc = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="the C library is not glibc"
)


def test_chunks_of_a_heap_are_free_as_their_successors_say() -> None:
    heap = bytearray(4096)
    for start, size in ((0, 0x100 | 1), (0x100, 0x200 | 1), (0x300, 0x80), (0x380, 0xC80 | 1)):
        struct.pack_into("<Q", heap, start + 8, size)
    base = 0x1000000
    space: Any = SimpleNamespace(
        mappings=[
            Mapping(base, base + 1024, "rw-p", "[heap]"),
            Mapping(base + 1024, base + 4096, "rw-p", "[heap]"),
        ],
        os_pages_there=lambda pages: np.frombuffer(heap, dtype=np.uint64).reshape(len(pages), -1),
    )
    chunks = read_chunks(space)
    assert (chunks.starts - np.uint64(base)).tolist() == [0, 0x100, 0x300, 0x380]
    assert chunks.in_use.tolist() == [True, False, True, False]
    inside = np.array([base + 0x110, base + 0x37F, base + 0x5000], dtype=np.uint64)
    assert chunks.index(inside).tolist() == [1, 2, -1]


def test_a_heap_without_headers_of_glibc_has_no_chunks() -> None:
    space: Any = SimpleNamespace(
        mappings=[Mapping(4096, 8192, "rw-p", "[heap]")],
        os_pages_there=lambda pages: np.full((len(pages), 512), 2**64 - 1, dtype=np.uint64),
    )
    assert len(read_chunks(space).starts) == 0


_THREAD = """
import ctypes, sys, threading
libc = ctypes.PyDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = libc.free.argtypes = [ctypes.c_size_t]
def allocate():
    blocks = [libc.malloc(5000) for _ in range(60)]
    libc.free(blocks[30])
    print(blocks[10], blocks[30], flush=True)
    for _ in range(int(sys.argv[1])):
        libc.malloc(3000)
    sys.stdin.read()
threading.Thread(target=allocate).start()
"""


def wait_for_sleep(pid: int) -> None:
    """Until no thread runs: nothing allocates any more."""
    deadline = time.monotonic() + 300
    while any(
        "(running)" in path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")
    ):
        assert time.monotonic() < deadline, "it does not sleep"
        time.sleep(0.02)


@contextlib.contextmanager
def _with_a_thread(more: int) -> Iterator[tuple[AddressSpace, list[int]]]:
    """A process whose thread has a block in use and a freed one, and goes on with `more`."""
    command = [sys.executable, "-c", _THREAD, str(more)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        blocks = [int(word) for word in child.stdout.readline().split()]
        with AddressSpace(child.pid) as space:
            yield space, blocks


@needs_glibc
def test_what_a_thread_has_allocated_lies_in_a_heap_of_its_own() -> None:
    with _with_a_thread(more=0) as (space, blocks):
        wait_for_sleep(space.pid)
        heaps = [(heap.start, heap.end) for heap in find_heaps(space)]
        chunks = read_chunks(space)
        regions = Regions(space.mappings, heaps=heaps)
    addresses = np.array(blocks, dtype=np.uint64)
    index = chunks.index(addresses)
    assert chunks.starts[index][0] == blocks[0] - 16
    assert chunks.in_use[index].tolist() == [True, False]
    assert regions.lookup(addresses).tolist() == [Region.HEAP, Region.HEAP]
    assert chunks.tops.sum() == len(heaps) >= 2


@needs_glibc
def test_a_thread_that_allocates_meanwhile_does_not_hide_its_heap() -> None:
    for _ in range(5):
        with _with_a_thread(more=3000) as (space, blocks):
            heaps = find_heaps(space)
        assert any(heap.start < blocks[0] < heap.end for heap in heaps)


def test_heaps_made_to_lead_nowhere_do_not_hold_up_who_looks_for_them() -> None:
    size, start = 64 << 20, 0x7F0000000000
    words = np.full(512, 0x21, dtype=np.uint64)
    head = words.copy()
    head[:4] = start + 0x30, 0, size - 4096, size - 4096

    def os_pages_there(pages: Any) -> Any:
        rows = np.tile(words, (len(pages), 1))
        rows[pages % size == 0] = head
        rows[pages >= start + size // 2] = 0  # each way ends in the middle
        return rows

    mappings = [Mapping(start, start + size, "rw-p", "")]
    space: Any = SimpleNamespace(mappings=mappings, os_pages_there=os_pages_there)
    assert len(find_heaps(space)) <= 1


def test_memory_that_only_looks_like_a_heap_of_a_thread_is_none() -> None:
    start = 0x7F0000000000
    page = np.zeros(4096 // 8, dtype=np.uint64)
    page[:4] = start + 0x30, 0, 0x21000, 0x21000
    space: Any = SimpleNamespace(
        mappings=[Mapping(start, start + 0x21000, "rw-p", "")],
        os_pages_there=lambda pages: np.array([page if p == start else 0 * page for p in pages]),
    )
    assert find_heaps(space) == ()
