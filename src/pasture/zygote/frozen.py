"""A process that stands still to be copied: its mappings, its pages, and facts of the kernel's.

Owns reading `/proc/PID` of a stopped process. Nothing here changes that process.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pasture.proc.os_page import OS_PAGE_BYTES

FACTS = (
    *("entry", "stack_pointer", "thread_pointer", "tid_address", "robust_list"),
    *("robust_list_bytes", "rseq", "rseq_bytes", "program_break"),
)
"""Fields of `freeze_facts` (src/native/zygote/freeze.h), in their order."""

_PRESENT, _SWAPPED, _OF_FILE = 1 << 63, 1 << 62, 1 << 61


@dataclass(frozen=True, slots=True)
class Mapping:
    """One mapping of an address space.

    Attributes:
        start: first address.
        end: address behind the last.
        perms: as `rw-p`.
        offset: in the file, bytes.
        inode: of the file; 0 without one.
        name: path of the file, `[heap]` and the like, or empty.
        flags: `VmFlags` of proc_pid_smaps(5), two letters each.
    """

    start: int
    end: int
    perms: str
    offset: int
    inode: int
    name: str
    flags: frozenset[str]

    @property
    def length(self) -> int:
        """Bytes."""
        return self.end - self.start

    @property
    def is_kernels(self) -> bool:
        """Whether the kernel maps it into each process: the vDSO and its data."""
        return self.name.startswith(("[vvar", "[vdso"))

    @property
    def is_file(self) -> bool:
        """Whether a file of a folder, or one in memory, is mapped."""
        return self.name.startswith("/") and self.inode != 0


def mappings(smaps: str) -> Iterator[Mapping]:
    """The mappings that a text of `/proc/PID/smaps` describes, in the order of addresses."""
    head: tuple[int, int, str, int, int, str] | None = None
    for line in smaps.splitlines():
        words = line.split(None, 5)
        if words[0] == "VmFlags:" and head is not None:
            yield Mapping(*head, frozenset(words[1:] and line.split()[1:]))
        elif not words[0].endswith(":"):
            start, _, end = words[0].partition("-")
            name = words[5] if len(words) > 5 else ""
            head = int(start, 16), int(end, 16), words[1], int(words[2], 16), int(words[4]), name


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
        text = (self._folder / "smaps").read_text("utf-8", "surrogateescape")
        return [one for one in mappings(text) if one.start < 1 << 63]

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
