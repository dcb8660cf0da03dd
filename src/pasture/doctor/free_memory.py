"""How much of a process's pymalloc pools is free altogether: memory that a fork carries along.

Reads the headers of pools and of no page that the process does not have.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pasture.proc.maps import Mapping, parse_maps
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture.proc.packages import read_text
from pasture.proc.page_entries import PRESENT, SWAPPED, open_entries, read_entries
from pasture.proc.pymalloc import POOL_BYTES, is_pool

_HEADER = struct.Struct("<IIQQQIIII")  # used, -, free block, two links, arena, class, next, last
_LEAST_MAPPING_BYTES = 1 << 18  # arenas of CPython 3.9, the smallest
_MOST_BYTES = 8 << 30


@dataclass(slots=True)
class _Process:
    """Descriptors of its memory and of its page entries."""

    memory: int
    entries: int


def free_bytes(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Bytes of pools without a block in use; None where the memory cannot be read."""
    if OS_PAGE_BYTES > POOL_BYTES:
        return None
    with ExitStack() as files:
        try:
            memory = os.open(proc / str(pid) / "mem", os.O_RDONLY | os.O_CLOEXEC)
            files.callback(os.close, memory)
            entries = open_entries(pid, proc)
            files.callback(os.close, entries)
        except OSError:
            return None
        process = _Process(memory, entries)
        return sum(_free_in(process, mapping) for mapping in _arenas(pid, proc))


def _arenas(pid: int, proc: Path) -> Iterator[Mapping]:
    left = _MOST_BYTES
    for mapping in parse_maps(read_text(str(proc / str(pid) / "maps"))):
        size = mapping.end - mapping.start
        is_data = not mapping.path and mapping.permissions.startswith("rw")
        if is_data and _LEAST_MAPPING_BYTES <= size <= left:
            left -= size
            yield mapping


def _free_in(process: _Process, mapping: Mapping) -> int:
    start = -(-mapping.start // POOL_BYTES) * POOL_BYTES
    there = _there(process, start, mapping.end)
    pages = POOL_BYTES // OS_PAGE_BYTES
    return sum(
        sum(there[i : i + pages]) * OS_PAGE_BYTES
        for i in range(0, len(there) - pages + 1, pages)
        if there[i] and _is_free_pool(process, start + i * OS_PAGE_BYTES)
    )


def _there(process: _Process, start: int, end: int) -> list[bool]:
    """Whether each page is in memory or in swap."""
    try:
        found = read_entries(process.entries, start, max(0, end - start) // OS_PAGE_BYTES)
    except OSError:  # it has ended
        return []
    return [entry & (PRESENT | SWAPPED) != 0 for entry in found]


def _is_free_pool(process: _Process, address: int) -> bool:
    try:
        data = os.pread(process.memory, _HEADER.size, address)
    except OSError:
        return False
    if len(data) < _HEADER.size:
        return False
    fields: tuple[int, ...] = _HEADER.unpack(data)
    used, *rest = fields[0], *fields[-3:]
    return used == 0 and bool(is_pool(used, *rest))
