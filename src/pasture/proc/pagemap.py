"""Which OS pages of a process are its own, as arrays: the entries of `proc.page_entries`.

A page counts as private here exactly if `smaps` counts it as private: it is in memory and
no other process maps it. That is bit 56, which needs no privilege; frame numbers, which
need root, are not used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pasture.errors import NoPrivilege
from pasture.proc import page_entries
from pasture.proc.address_space import Array, ended
from pasture.proc.maps import Mapping
from pasture.proc.os_page import OS_PAGE_BYTES

_PRESENT, _SWAPPED = np.uint64(page_entries.PRESENT), np.uint64(page_entries.SWAPPED)
_FILE, _EXCLUSIVE = np.uint64(page_entries.OF_FILE), np.uint64(page_entries.EXCLUSIVE)
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
        file = page_entries.open_entries(pid, proc)
        try:
            entries = page_entries.read_entries(file, mapping.start, pages)
        finally:
            os.close(file)
    except (FileNotFoundError, ProcessLookupError):
        raise ended(pid) from None
    except PermissionError:
        raise NoPrivilege(
            f"not allowed to read the page map of process {pid}",
            hint="run pasture as the user that owns the process, or as root",
        ) from None
    return decode(mapping, np.frombuffer(entries, dtype=np.uint64))
