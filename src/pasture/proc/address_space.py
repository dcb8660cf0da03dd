"""The address space of another process: what is mapped where, and the bytes there.

Reads `/proc/PID/mem`, and `/proc/PID/maps` once, and writes neither. Nothing is stopped: a
process that runs on while it is read gives bytes of different moments.

Source: proc_pid_mem(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pasture.errors import NoPrivilege, ProcessEnded
from pasture.proc.maps import Mapping, read_maps
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture.proc.page_entries import PRESENT, SWAPPED, open_entries, read_entries
from pasture.proc.smaps import has_memory

WORD_BYTES = 8
_MAX_BYTES = 64 << 20  # a process may claim any size for what it holds
_PRESENT_OR_SWAPPED = np.uint64(PRESENT | SWAPPED)

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
                hint="run pasture as root, or as the user that owns the process with "
                "kernel.yama.ptrace_scope=0",
            ) from None

    def __enter__(self) -> AddressSpace:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._memory)

    def read(self, address: int, size_bytes: int) -> bytes:
        """Bytes at an address, 64 MB at most; fewer, or none, where nothing is mapped."""
        try:
            found = os.pread(self._memory, min(size_bytes, _MAX_BYTES), address)
        except OSError:  # EIO: nothing is mapped there
            found = b""
        except OverflowError:
            return b""
        if not found and size_bytes and not has_memory(self.pid):
            raise ended(self.pid)
        return found

    def word(self, address: int) -> int:
        """The 8 bytes at an address as a number; 0 where nothing is mapped."""
        return int.from_bytes(self.read(address, WORD_BYTES).ljust(WORD_BYTES, b"\0"), "little")

    def os_pages(self, addresses: Array) -> Array:
        """The words of OS pages, one row each; zeros where a page cannot be read.

        Args:
            addresses: of pages, ascending, as an array of uint64.
        """
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
        """Like `os_pages`, without a look at pages that the process does not have.

        The kernel would map its page of zeros in their places.
        """
        rows = np.zeros((len(addresses), OS_PAGE_BYTES // WORD_BYTES), dtype=np.uint64)
        there = np.flatnonzero(self._has(addresses))
        rows[there] = self.os_pages(addresses[there])
        return rows

    def _has(self, addresses: Array) -> Array:
        """Whether pages (ascending) are in memory or in swap."""
        entries = np.zeros(len(addresses), dtype=np.uint64)
        try:
            file = open_entries(self.pid)
            try:
                for first, count in runs(addresses, OS_PAGE_BYTES):
                    found = read_entries(file, int(addresses[first]), count)
                    entries[first : first + len(found)] = found
            finally:
                os.close(file)
        except (FileNotFoundError, ProcessLookupError):
            raise ended(self.pid) from None
        return entries & _PRESENT_OR_SWAPPED != 0

    def _read_into(self, address: int, words: Array) -> bool:
        """Fill an array from an address on; whether all of it could be read."""
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
    """Stretches of neighbours in ascending addresses: index of the first, and count."""
    if not len(addresses):
        return
    breaks = np.flatnonzero(np.diff(addresses) != step) + 1
    bounds = [0, *breaks.tolist(), len(addresses)]
    for first, after in pairwise(bounds):
        yield first, after - first


def ended(pid: int) -> ProcessEnded:
    """The error to raise when a process is gone."""
    return ProcessEnded(
        f"process {pid} ended while it was looked at",
        hint="its server may have replaced it: explain the one that came in its place",
    )
