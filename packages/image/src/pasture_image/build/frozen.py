"""Reads a stopped process for copying: mappings, pages, kernel state. Changes nothing in it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

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

_PIECE_OS_PAGES = 65536


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
        self.facts = dict(zip(FACTS, found, strict=True))

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

    def layout(self) -> dict[str, int]:
        """Where the kernel counts code, data and stack of it (proc_pid_stat(5))."""
        fields = read_fields(self.pid)
        names = {"start_code": 26, "end_code": 27, "start_stack": 28, "start_data": 45}
        names |= {"end_data": 46, "start_brk": 47}
        return {name: int(fields[number - FIRST_FIELD]) for name, number in names.items()}

    def auxiliary_vector(self) -> bytes:
        """The values that the kernel gave the program at its start."""
        return (self._folder / "auxv").read_bytes()

    def descriptors(self) -> dict[int, str]:
        """Open descriptors, with what they lead to."""
        folder = self._folder / "fd"
        return {int(entry.name): str(entry.readlink()) for entry in folder.iterdir()}

    def descriptor_state(self, number: int) -> tuple[int, int]:
        """Flags of open(2) of a descriptor, and its offset in the file."""
        lines = (self._folder / "fdinfo" / f"{number}").read_text().splitlines()
        fields = dict(line.split(None, 1) for line in lines[:2])
        return int(fields["flags:"], 8), int(fields["pos:"])

    def is_locked(self, number: int) -> bool:
        """Whether flock(2) holds a lock by a descriptor: proc_pid_fdinfo(5)."""
        return "\nlock:" in (self._folder / "fdinfo" / f"{number}").read_text()

    def threads(self) -> int:
        """How many threads it has."""
        return len(list((self._folder / "task").iterdir()))
