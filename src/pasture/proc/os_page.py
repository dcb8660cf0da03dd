"""OS pages: their size, and their entries in `/proc/PID/pagemap`, which nothing else reads.

aarch64 has kernels with pages of 4, 16 and 64 KiB. Imports only standard modules that programs
cannot notice: builds of images use this, too. `proc.address_space` has the entries as arrays.

Source: Documentation/admin-guide/mm/pagemap.rst of Linux.
"""

from __future__ import annotations

import os
from pathlib import Path

OS_PAGE_BYTES: int = os.sysconf("SC_PAGE_SIZE")
ADDRESS_END = 1 << 56
"""End of all addresses of programs: x86-64 with five levels of tables; aarch64 ends at 2^52."""

PRESENT, SWAPPED, OF_FILE, EXCLUSIVE = (1 << bit for bit in (63, 62, 61, 56))
"""Bits: in memory; in swap; in the page cache; mapped only by this process."""

_ENTRY_BYTES = 8
_READ_BYTES = 1 << 19


def floor_os_page(address: int) -> int:
    """The start of the OS page that holds an address."""
    return address - address % OS_PAGE_BYTES


def open_entries(pid: int, proc: Path = Path("/proc")) -> int:
    """A descriptor for `read_entries`.

    Raises:
        OSError: the process has ended, or belongs to another user.
    """
    return os.open(proc / str(pid) / "pagemap", os.O_RDONLY | os.O_CLOEXEC)


def read_entries(file: int, address: int, count: int) -> memoryview:
    """Entries of `count` pages from an address on; fewer at the end of the memory."""
    found = bytearray()
    at, wanted = address // OS_PAGE_BYTES * _ENTRY_BYTES, count * _ENTRY_BYTES
    while part := os.pread(file, min(_READ_BYTES, wanted - len(found)), at + len(found)):
        found += part
    return memoryview(found)[: len(found) // _ENTRY_BYTES * _ENTRY_BYTES].cast("Q")
