"""The address space of another process: its mappings and their bytes.

Reads `/proc/PID/mem` and `pagemap`, and `/proc/PID/maps` once. Stops no process: one that runs on
while it is read gives bytes of different moments.

Source: proc_pid_mem(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pasture.errors import NoPrivilege, ProcessEnded
from pasture.proc import privilege
from pasture.proc.maps import Mapping, read_maps
from pasture.proc.os_page import (
    EXCLUSIVE,
    OF_FILE,
    OS_PAGE_BYTES,
    PRESENT,
    SWAPPED,
    open_entries,
    read_entries,
)
from pasture.proc.smaps import has_memory

WORD_BYTES = 8
MAX_READ_BYTES = 64 << 20  # a process may claim any size
_PRESENT, _SWAPPED, _FILE, _EXCLUSIVE = map(np.uint64, (PRESENT, SWAPPED, OF_FILE, EXCLUSIVE))
_UNMAPPABLE = ("[vsyscall]", "[vvar]", "[vvar_vclock]", "[vdso]")

Array = Any
"""A numpy array; numpy's own types cannot be checked for the oldest Python supported."""


class AddressSpace:
    """The open memory of one process, to be closed as a context manager.

    Raises:
        ProcessEnded: from every method, if the process has ended or is ending.
        NoPrivilege: from the constructor: another user's process, or the kernel refuses.
    """

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self.pid = pid
        try:
            # First, since it needs no closing.
            self.mappings = read_maps(pid, proc)
            if not self.mappings:
                raise ended(pid)
            self._memory = os.open(proc / str(pid) / "mem", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            raise ended(pid) from None
        except PermissionError:
            raise NoPrivilege(
                f"not allowed to read the memory of process {pid}",
                hint=privilege.hint(
                    "CAP_SYS_PTRACE",
                    "run pasture as root, or as the user that owns the process with "
                    "kernel.yama.ptrace_scope=0",
                ),
            ) from None

    def __enter__(self) -> AddressSpace:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._memory)

    def read(self, address: int, size_bytes: int) -> bytes:
        """Bytes at an address, 64 MB at most; fewer where memory is not mapped."""
        try:
            found = os.pread(self._memory, min(size_bytes, MAX_READ_BYTES), address)
        except OSError:  # EIO: nothing is mapped there
            found = b""
        except OverflowError:
            return b""
        if not found and size_bytes and not has_memory(self.pid):
            raise ended(self.pid)
        return found

    def word(self, address: int) -> int:
        """The 8 bytes at an address as a number; 0 where memory is not mapped."""
        return int.from_bytes(self.read(address, WORD_BYTES).ljust(WORD_BYTES, b"\0"), "little")

    def os_pages(self, addresses: Array) -> Array:
        """The words of OS pages (uint64, ascending), one row each; zeros where none can be read."""
        rows = np.empty((len(addresses), OS_PAGE_BYTES // WORD_BYTES), dtype=np.uint64)
        for first, count in runs(addresses, OS_PAGE_BYTES):
            part = rows[first : first + count]
            if self._read_into(int(addresses[first]), part):
                continue
            if count > 1:  # a page in the middle: those before and after it one by one
                for i in range(first, first + count):
                    rows[i : i + 1] = self.os_pages(addresses[i : i + 1])
            else:
                part[:] = 0
        return rows

    def os_pages_there(self, addresses: Array) -> Array:
        """As `os_pages`, without reading missing pages: the kernel would map its page of zeros
        there.
        """
        rows = np.zeros((len(addresses), OS_PAGE_BYTES // WORD_BYTES), dtype=np.uint64)
        there = np.flatnonzero(self._has(addresses))
        rows[there] = self.os_pages(addresses[there])
        return rows

    def has_pages(self, mapping: Mapping, addresses: Array) -> Array:
        """Whether there is a page, in memory or in swap, at each address within one mapping."""
        pages = read_os_pages(self.pid, mapping)
        there = pages.present | pages.swapped
        at = ((addresses - np.uint64(mapping.start)) // np.uint64(OS_PAGE_BYTES)).astype(np.int64)
        if not len(there):
            return np.zeros(len(at), dtype=bool)
        return there[np.minimum(at, len(there) - 1)]

    def _has(self, addresses: Array) -> Array:
        """Whether pages (ascending) are in memory or in swap."""
        entries = np.zeros(len(addresses), dtype=np.uint64)
        with _opened_entries(self.pid) as file:
            for first, count in runs(addresses, OS_PAGE_BYTES):
                found = read_entries(file, int(addresses[first]), count)
                entries[first : first + len(found)] = found
        return entries & (_PRESENT | _SWAPPED) != 0

    def _read_into(self, address: int, words: Array) -> bool:
        """Fill an array from an address on; returns whether all of it could be read."""
        try:
            done = os.preadv(self._memory, [words.data.cast("B")], address)
        except OSError:  # EIO: nothing is mapped there
            done = 0
        if not done and not has_memory(self.pid):
            raise ended(self.pid)
        return done == len(words) * OS_PAGE_BYTES

    def find(self, address: int) -> Mapping | None:
        """The mapping that holds an address."""
        return next((m for m in self.mappings if m.start <= address < m.end), None)


def runs(addresses: Array, step: int) -> Iterable[tuple[int, int]]:
    """Runs of neighbours in ascending addresses: index of the first, and count."""
    if not len(addresses):
        return
    breaks = np.flatnonzero(np.diff(addresses) != step) + 1
    bounds = [0, *breaks.tolist(), len(addresses)]
    for first, after in pairwise(bounds):
        yield first, after - first


def ended(pid: int) -> ProcessEnded:
    """The error for a process that has ended."""
    return ProcessEnded(
        f"process {pid} ended during the reading",
        hint="if its server has replaced it, take the new process",
    )


@dataclass(frozen=True, slots=True)
class OsPages:
    """Pages of one mapping, each array one entry a page.

    A page counts as private here exactly if `smaps` counts it so: it is in memory and no other
    process maps it. That is bit 56, which needs no privilege; frame numbers, which need root, are
    not used.
    """

    addresses: Array  # uint64, ascending, all pages of the mapping
    present: Array  # in memory
    swapped: Array  # in swap
    private: Array  # in memory and mapped by no other process
    of_file: Array  # belongs to the page cache: equal to its file, for private mappings


@contextmanager
def _opened_entries(pid: int, proc: Path = Path("/proc")) -> Iterator[int]:
    try:
        file = open_entries(pid, proc)
        try:
            yield file
        finally:
            os.close(file)
    except (FileNotFoundError, ProcessLookupError):
        raise ended(pid) from None
    except PermissionError:
        raise NoPrivilege(
            f"not allowed to read the page map of process {pid}",
            hint=privilege.hint(
                "CAP_SYS_PTRACE", "run pasture as the user that owns the process, or as root"
            ),
        ) from None


def decode(mapping: Mapping, entries: Array) -> OsPages:
    """Pages of a mapping from its entries, uint64, one a page."""
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
    with _opened_entries(pid, proc) as file:
        entries = read_entries(file, mapping.start, pages)
    return decode(mapping, np.frombuffer(entries, dtype=np.uint64))
