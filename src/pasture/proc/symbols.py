"""Names for instructions of a process: symbols of its files, and of its perf map.

CPython from 3.12 on writes a perf map if it was started with `-X perf`; Python functions
then have names of their own. Without one, the function that runs bytecode is named.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path, PurePath

from pasture.errors import UsageError
from pasture.proc.address_space import AddressSpace
from pasture.proc.elf import Elf, read_elf
from pasture.proc.maps import Mapping
from pasture.trust.foreign_files import read_foreign, user_of

_KERNEL = 1 << 63
_MAX_BYTES = 256 << 20
_LONGEST_NAME = 500


class Symbols:
    """Symbols of one process.

    Args:
        space: its memory; read for the mappings alone.
        perf_map: file that says where generated code is; "" for the usual place.
    """

    def __init__(self, space: AddressSpace, perf_map: str = "") -> None:
        self._mappings = space.mappings
        self._starts = [mapping.start for mapping in space.mappings]
        self._root = f"/proc/{space.pid}/root"
        self._known: dict[int, str] = {}
        self._generated = read_perf_map(
            Path(perf_map or f"/tmp/perf-{space.pid}.map"), user_of(space.pid)
        )

    def name(self, address: int) -> str:
        """The function at an address; the file and offset if it has no name."""
        if address not in self._known:
            self._known[address] = self._find(address)
        return self._known[address]

    def _find(self, address: int) -> str:
        if address >= _KERNEL:
            return "kernel"
        i = bisect_right(self._starts, address) - 1
        mapping = self._mappings[i] if i >= 0 else None
        if mapping is None or address >= mapping.end:
            return "?"
        if not mapping.is_file:
            return self._in_generated(address)
        offset = address - mapping.start + mapping.offset
        elf = self._elf(mapping)
        found = elf.symbol(elf.linked(offset))
        return found or f"{PurePath(mapping.path).name}+{offset:#x}"

    def _elf(self, mapping: Mapping) -> Elf:
        elf = read_elf(mapping.path)
        return elf if elf.end else read_elf(self._root + mapping.path)

    def _in_generated(self, address: int) -> str:
        starts, ends, names = self._generated
        i = bisect_right(starts, address) - 1
        return names[i] if i >= 0 and address < ends[i] else "generated code"


def read_perf_map(path: Path, owners: Iterable[int] = ()) -> tuple[list[int], list[int], list[str]]:
    """Starts, ends and names of generated code.

    All are empty without a file, and with one that is none of these users', root's or ours.
    Lines that name no code are left out.
    """
    try:
        data = read_foreign(path, most_bytes=_MAX_BYTES, owners=owners)
    except UsageError:
        return [], [], []
    rows = sorted(row for line in data.split(b"\n") if (row := _code(line)) is not None)
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _code(line: bytes) -> tuple[int, int, str] | None:
    """Start, end and name of one piece of code: "START SIZE NAME", numbers in base 16."""
    words = line.split(b" ", 2)
    try:
        start, size = int(words[0], 16), int(words[1], 16)
        return start, start + size, words[2][:_LONGEST_NAME].decode(errors="replace")
    except (ValueError, IndexError):
        return None
