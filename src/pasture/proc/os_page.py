"""The page size of the running kernel, and where the memory of a process ends.

The only place in Python that knows either: aarch64 has kernels with pages of 4, 16 and 64 KiB.
"""

from __future__ import annotations

import os

OS_PAGE_BYTES: int = os.sysconf("SC_PAGE_SIZE")
ADDRESS_END = 1 << 56
"""No program has memory from here on: x86-64 with five levels of tables; aarch64 ends at 2^52."""


def floor_os_page(address: int) -> int:
    """The start of the OS page that holds an address."""
    return address - address % OS_PAGE_BYTES
