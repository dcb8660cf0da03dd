"""Which OS pages of a process are its own: `/proc/PID/pagemap`.

A page counts as private here exactly if `smaps` counts it as private: it is in memory and
no other process maps it. That is bit 56, which needs no privilege; frame numbers, which
need root, are not used.

Source: Documentation/admin-guide/mm/pagemap.rst of Linux.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pasture.errors import NoPrivilege
from pasture.proc.address_space import Array, ended
from pasture.proc.maps import Mapping
from pasture.proc.os_page import OS_PAGE_BYTES

_PRESENT, _SWAPPED, _FILE, _EXCLUSIVE = (np.uint64(1 << bit) for bit in (63, 62, 61, 56))
_UNMAPPABLE = ("[vsyscall]", "[vvar]", "[vvar_vclock]", "[vdso]")


@dataclass(frozen=True, slots=True)
class OsPages:
    """Pages of one mapping, each array one entry a page.

    Attributes:
        addresses: uint64, ascending, all pages of the mapping.
        present: in memory.
        swapped: in swap.
        private: in memory and mapped by no other process.
        of_file: belongs to the page cache: equal to its file, for private mappings.
    """

    addresses: Array
    present: Array
    swapped: Array
    private: Array
    of_file: Array


def decode(mapping: Mapping, entries: Array) -> OsPages:
    """What the entries of a pagemap say.

    Args:
        entries: uint64, one a page of the mapping.
    """
    present = (entries & _PRESENT) != 0
    first = np.uint64(mapping.start)
    addresses = first + np.arange(len(entries), dtype=np.uint64) * np.uint64(OS_PAGE_BYTES)
    return OsPages(
        addresses=addresses,
        present=present,
        swapped=(entries & _SWAPPED) != 0,
        private=present & ((entries & _EXCLUSIVE) != 0),
        of_file=(entries & _FILE) != 0,
    )


def read_os_pages(pid: int, mapping: Mapping, proc: Path = Path("/proc")) -> OsPages:
    """Look up the pages of one mapping.

    Raises:
        ProcessEnded: the process is gone.
        NoPrivilege: the process belongs to another user.
    """
    if mapping.path in _UNMAPPABLE:
        return decode(mapping, np.zeros(0, dtype=np.uint64))
    pages = (mapping.end - mapping.start) // OS_PAGE_BYTES
    try:
        with (proc / str(pid) / "pagemap").open("rb", buffering=0) as file:
            file.seek(mapping.start // OS_PAGE_BYTES * 8)
            data = _read_all(file, pages * 8)
    except (FileNotFoundError, ProcessLookupError):
        raise ended(pid) from None
    except PermissionError:
        raise NoPrivilege(
            f"not allowed to read the page map of process {pid}",
            hint="run pasture as the user that owns the process, or as root",
        ) from None
    return decode(mapping, np.frombuffer(data, dtype=np.uint64, count=len(data) // 8))


def _read_all(file: object, size_bytes: int) -> bytes:
    read = file.read  # type: ignore[attr-defined]
    parts = []
    while size_bytes:
        part = read(size_bytes)
        if not part:
            break
        parts.append(part)
        size_bytes -= len(part)
    return b"".join(parts)
