"""Memory of this process, from one line of the kernel's, for code that runs while a heap is sealed.

Source: proc_pid_statm(5).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pasture.proc.os_page import OS_PAGE_BYTES

_STATM = Path("/proc/self/statm")


class OwnMemory(NamedTuple):
    resident_bytes: int
    heap_bytes: int
    """Resident memory without a file: what a fork shares, and what becomes private."""


def read_own_memory() -> OwnMemory:
    """Read the memory now.

    Raises:
        OSError, ValueError: the kernel does not report it.
    """
    resident, shared = map(int, _STATM.read_text().split()[1:3])
    return OwnMemory(resident * OS_PAGE_BYTES, (resident - shared) * OS_PAGE_BYTES)
