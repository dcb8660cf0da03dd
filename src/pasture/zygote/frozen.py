"""Reads a stopped process for copying: mappings, pages, kernel state. Changes nothing in it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from pasture.proc.maps import Mapping, read_smaps
from pasture.proc.os_page import OS_PAGE_BYTES

FACTS = (
    *("entry", "stack_pointer", "thread_pointer", "tid_address", "robust_list"),
    *("robust_list_bytes", "rseq", "rseq_bytes", "program_break"),
)
"""Fields of `freeze_facts` (src/native/zygote/freeze.h), in their order."""

_PRESENT, _SWAPPED, _OF_FILE = 1 << 63, 1 << 62, 1 << 61


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
        self._pagemap = os.open(self._folder / "pagemap", os.O_RDONLY | os.O_CLOEXEC)
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
        first, count = mapping.start // OS_PAGE_BYTES, mapping.length // OS_PAGE_BYTES
        found = []
        for begin in range(0, count, 65536):
            raw = os.pread(self._pagemap, 8 * min(65536, count - begin), 8 * (first + begin))
            entries = struct.unpack(f"<{len(raw) // 8}Q", raw)
            found += [
                begin + i
                for i, entry in enumerate(entries)
                if entry & (_PRESENT | _SWAPPED) and not entry & _OF_FILE
            ]
        return found

    def layout(self) -> dict[str, int]:
        """Where the kernel counts code, data and stack of it (proc_pid_stat(5))."""
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        # The first of them is field 3.
        names = {"start_code": 26, "end_code": 27, "start_stack": 28, "start_data": 45}
        names |= {"end_data": 46, "start_brk": 47}
        return {name: int(fields[number - 3]) for name, number in names.items()}

    def auxiliary_vector(self) -> bytes:
        """What the kernel told the program at its start."""
        return (self._folder / "auxv").read_bytes()

    def descriptors(self) -> dict[int, str]:
        """Open descriptors, with what they lead to."""
        folder = self._folder / "fd"
        return {int(entry.name): str(entry.readlink()) for entry in folder.iterdir()}

    def descriptor_state(self, number: int) -> tuple[int, int]:
        """Flags of open(2) of a descriptor, and where in the file it stands."""
        lines = (self._folder / "fdinfo" / f"{number}").read_text().splitlines()
        fields = dict(line.split(None, 1) for line in lines[:2])
        return int(fields["flags:"], 8), int(fields["pos:"])

    def threads(self) -> int:
        """How many threads it has."""
        return len(list((self._folder / "task").iterdir()))
