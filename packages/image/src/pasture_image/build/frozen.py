"""Reads a stopped process for copying: mappings, pages, kernel state. Changes nothing in it."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from pasture.proc.maps import Mapping, read_smaps
from pasture.proc.os_page import (
    OF_FILE,
    OS_PAGE_BYTES,
    PRESENT,
    SWAPPED,
    open_entries,
    read_entries,
)
from pasture.proc.stat import FIRST_FIELD, read_fields

FACTS = (
    *("entry", "stack_pointer", "thread_pointer", "tid_address", "robust_list"),
    *("robust_list_bytes", "rseq", "rseq_bytes", "program_break"),
)
"""Fields of `freeze_facts` (src/native/image/freeze.h), in their order."""

LAYOUT = {
    **{"start_code": 26, "end_code": 27, "start_data": 45, "end_data": 46},
    **{"start_brk": 47, "start_stack": 28},
}
"""Where the kernel counts code, data and stack of a process: fields of proc_pid_stat(5)."""

_PIECE_OS_PAGES = 65536


class Opened(NamedTuple):
    """A file that is open.

    Attributes:
        flags: of open(2).
        offset: where in the file it is.
        is_locked: whether flock(2) holds a lock by it.
    """

    number: int
    path: str
    flags: int
    offset: int
    is_locked: bool


class Frozen:
    """A stopped process that is open for reading."""

    def __init__(self, pid: int, facts_address: int) -> None:
        """Open it.

        Args:
            pid: of a child of this process.
            facts_address: where `freeze_facts` lie in it.

        Raises:
            OSError: the kernel does not let this process read it.
        """
        self.pid = pid
        self._folder = Path(f"/proc/{pid}")
        self._memory = os.open(self._folder / "mem", os.O_RDONLY | os.O_CLOEXEC)
        self._pagemap = open_entries(pid)
        found = struct.unpack(f"<{len(FACTS)}Q", self.read(facts_address, 8 * len(FACTS)))
        fields = read_fields(pid)
        self.facts = dict(zip(FACTS, found, strict=True))
        self.facts |= {name: int(fields[at - FIRST_FIELD]) for name, at in LAYOUT.items()}

    def close(self) -> None:
        """Let go of it."""
        os.close(self._memory)
        os.close(self._pagemap)

    def mappings(self) -> list[Mapping]:
        """All of its mappings, without the one outside of the address space (vsyscall)."""
        return [one for one, _ in read_smaps(self.pid) if one.start < 1 << 63]

    def read(self, address: int, length: int) -> bytes:
        """Bytes of its memory."""
        return os.pread(self._memory, length, address)

    def private_os_pages(self, mapping: Mapping) -> list[int]:
        """Indices of the pages of a mapping that are this process's own, and no file's."""
        count, found = mapping.length // OS_PAGE_BYTES, []
        for begin in range(0, count, _PIECE_OS_PAGES):
            at, piece = mapping.start + begin * OS_PAGE_BYTES, min(_PIECE_OS_PAGES, count - begin)
            found += [
                begin + i
                for i, entry in enumerate(read_entries(self._pagemap, at, piece))
                if entry & (PRESENT | SWAPPED) and not entry & OF_FILE
            ]
        return found

    def auxiliary_vector(self) -> bytes:
        """The values that the kernel gave the program at its start."""
        return (self._folder / "auxv").read_bytes()

    def opened(self) -> list[Opened]:
        """What is open: proc_pid_fdinfo(5)."""
        found = []
        for entry in (self._folder / "fd").iterdir():
            text = (self._folder / "fdinfo" / entry.name).read_text()
            fields = dict(line.split(None, 1) for line in text.splitlines()[:2])
            state = int(fields["flags:"], 8), int(fields["pos:"]), "\nlock:" in text
            found.append(Opened(int(entry.name), str(entry.readlink()), *state))
        return found

    def threads(self) -> int:
        """How many threads it has."""
        return len(list((self._folder / "task").iterdir()))
