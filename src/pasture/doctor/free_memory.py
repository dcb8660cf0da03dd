"""Free memory in a process's pymalloc pools, which a fork carries along.

Reads the headers of pools and of no page that the process does not have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pasture.proc.maps import Mapping, parse_maps
from pasture.proc.os_page import OS_PAGE_BYTES, PRESENT, SWAPPED, open_entries, read_entries
from pasture.proc.packages import read_text
from pasture.proc.pymalloc import PoolLayout, own_pools

_MIN_MAPPING_BYTES = 1 << 18  # arenas of CPython 3.9, the smallest
_MAX_BYTES = 8 << 30


@dataclass(slots=True)
class _Process:
    memory: int
    entries: int


def free_bytes(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Bytes of pools without a block in use; None where the memory cannot be read.

    Also None where the layout of pools is not known: it is that of the interpreter that runs this.
    """
    layout = own_pools()
    if layout is None or OS_PAGE_BYTES > layout.pool_bytes:
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
        return sum(_free_in(process, mapping, layout) for mapping in _arenas(pid, proc))


def _arenas(pid: int, proc: Path) -> Iterator[Mapping]:
    left = _MAX_BYTES
    for mapping in parse_maps(read_text(str(proc / str(pid) / "maps"))):
        size = mapping.end - mapping.start
        is_data = not mapping.path and mapping.permissions.startswith("rw")
        if is_data and _MIN_MAPPING_BYTES <= size <= left:
            left -= size
            yield mapping


def _free_in(process: _Process, mapping: Mapping, layout: PoolLayout) -> int:
    start = -(-mapping.start // layout.pool_bytes) * layout.pool_bytes
    there = _there(process, start, mapping.end)
    pages = layout.pool_bytes // OS_PAGE_BYTES
    return sum(
        sum(there[i : i + pages]) * OS_PAGE_BYTES
        for i in range(0, len(there) - pages + 1, pages)
        if there[i] and layout.is_free(_header(process, start + i * OS_PAGE_BYTES, layout))
    )


def _there(process: _Process, start: int, end: int) -> list[bool]:
    try:
        found = read_entries(process.entries, start, max(0, end - start) // OS_PAGE_BYTES)
    except OSError:  # it has ended
        return []
    return [entry & (PRESENT | SWAPPED) != 0 for entry in found]


def _header(process: _Process, address: int, layout: PoolLayout) -> bytes:
    try:
        return os.pread(process.memory, layout.header_bytes, address)
    except OSError:
        return b""
