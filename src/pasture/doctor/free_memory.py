"""How much of a process's pymalloc pools is free altogether: memory that a fork carries along.

Reads the headers of pools and of no page that the process does not have.

Source: CPython Objects/obmalloc.c (struct pool_header); proc_pid_pagemap(5).
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pasture.proc.maps import Mapping, parse_maps
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture.proc.packages import read_text

_POOL_BYTES = 16384
_HEADER = struct.Struct("<IIQQQIIII")  # used, -, free block, two links, arena, class, next, last
_HEADER_BYTES = 48
_CLASSES = 32
_LEAST_MAPPING_BYTES = 1 << 18  # arenas of CPython 3.9, the smallest
_MOST_BYTES = 8 << 30
_PRESENT_OR_SWAPPED = 62  # bits of a pagemap entry from there on


@dataclass(slots=True)
class _Process:
    memory: IO[bytes]
    pagemap: IO[bytes]

    def close(self) -> None:
        self.memory.close()
        self.pagemap.close()


def free_bytes(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Bytes of pools without a block in use; None where the memory cannot be read."""
    if OS_PAGE_BYTES > _POOL_BYTES:
        return None
    try:
        process = _Process(
            (proc / str(pid) / "mem").open("rb", buffering=0),
            (proc / str(pid) / "pagemap").open("rb", buffering=0),
        )
    except OSError:
        return None
    with closing(process):
        return sum(_free_in(process, m) for m in _arenas(pid, proc))


def _arenas(pid: int, proc: Path) -> Iterator[Mapping]:
    left = _MOST_BYTES
    for mapping in parse_maps(read_text(str(proc / str(pid) / "maps"))):
        size = mapping.end - mapping.start
        is_data = not mapping.path and mapping.permissions.startswith("rw")
        if is_data and _LEAST_MAPPING_BYTES <= size <= left:
            left -= size
            yield mapping


def _free_in(process: _Process, mapping: Mapping) -> int:
    start = -(-mapping.start // _POOL_BYTES) * _POOL_BYTES
    there = _there(process, start, mapping.end)
    pages = _POOL_BYTES // OS_PAGE_BYTES
    return sum(
        sum(there[i : i + pages]) * OS_PAGE_BYTES
        for i in range(0, len(there) - pages + 1, pages)
        if there[i] and _is_free_pool(process, start + i * OS_PAGE_BYTES)
    )


def _there(process: _Process, start: int, end: int) -> list[bool]:
    """Whether each page is in memory or in swap."""
    entries = array("Q")
    try:
        count = max(0, end - start) // OS_PAGE_BYTES * entries.itemsize
        data = os.pread(process.pagemap.fileno(), count, start // OS_PAGE_BYTES * entries.itemsize)
        entries.frombytes(data[: len(data) // entries.itemsize * entries.itemsize])
    except OSError:  # it has ended
        return []
    return [entry >> _PRESENT_OR_SWAPPED != 0 for entry in entries]


def _is_free_pool(process: _Process, address: int) -> bool:
    """A pool is recognised by its header alone: its fields depend on each other."""
    try:
        data = os.pread(process.memory.fileno(), _HEADER.size, address)
    except OSError:
        return False
    if len(data) < _HEADER.size:
        return False
    fields: tuple[int, ...] = _HEADER.unpack(data)
    used, size_class, next_offset, last_offset = fields[0], *fields[-3:]
    block = (size_class + 1) * 16
    return (
        used == 0
        and size_class < _CLASSES
        and last_offset == _POOL_BYTES - block
        and _HEADER_BYTES + block <= next_offset <= _POOL_BYTES
        and (next_offset - _HEADER_BYTES) % block == 0
    )
