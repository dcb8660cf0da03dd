"""ELF files: their size in memory, their symbols, and names for instructions.

Reads 64-bit little-endian files, the only ones that the extension supports. A missing or different
file gives an empty `Elf`. pyelftools would be a dependency for two tables, and makes an object of
each symbol, where one pass over the table is enough here.

CPython from 3.12 on writes a perf map if it was started with `-X perf`; Python functions then have
names of their own. Without one, the function that runs bytecode is named.

Source: elf(5).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from pasture.errors import UsageError
from pasture.proc.os_page import floor_os_page
from pasture.trust.foreign_files import read_foreign, user_of

if TYPE_CHECKING:  # numpy, which the ELF reader does not need
    from pasture_tools.proc.address_space import AddressSpace

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_LOAD = 1
_SYMTAB, _DYNSYM = 2, 11
_OBJECT, _FUNCTION = 1, 2
_MAX_BYTES = 1 << 30
_MAX_TABLES = 8
_MAX_SYMBOLS = 4_000_000
_MAX_NAME_BYTES = 4096
_KERNEL = 1 << 63
_MAX_MAP_BYTES = 256 << 20
_MAX_NAME = 500


@dataclass(frozen=True, slots=True)
class Elf:
    # First address behind the loaded file, .bss included, relative to its first segment; 0 if
    # unknown.
    end: int = 0
    # File offset, size in the file and address of each loaded segment.
    segments: tuple[tuple[int, int, int], ...] = ()
    values: tuple[int, ...] = ()  # addresses of symbols, ascending
    # sizes, names: size and name of these symbols; a size may be 0.
    sizes: tuple[int, ...] = ()
    names: tuple[str, ...] = field(default=(), repr=False)
    needs: frozenset[str] = frozenset()  # names of symbols that other files must define

    def symbol(self, address: int) -> str:
        """Name of the symbol that holds an address as linked; "" if none does."""
        i = bisect_right(self.values, address) - 1
        if i < 0:
            return ""
        following = self.values[i + 1] if i + 1 < len(self.values) else self.values[i] + (1 << 16)
        end = self.values[i] + self.sizes[i] if self.sizes[i] else following
        return self.names[i] if address < end else ""

    def linked(self, offset: int) -> int:
        """Address as linked of a byte at an offset of the file; -1 if it is not loaded."""
        for start, size, address in self.segments:
            if start <= offset < start + size:
                return address + offset - start
        return -1


@lru_cache(maxsize=256)
def read_elf(path: str) -> Elf:
    """Read a file; contents are absent if it cannot be read or understood."""
    try:
        return parse_elf(read_foreign(Path(path), most_bytes=_MAX_BYTES, owners=None))
    except (UsageError, ValueError, struct.error, IndexError):
        return Elf()


@lru_cache(maxsize=1024)
def loaded_bytes(path: str) -> int:
    """The reach of a file in memory, .bss included; 0 if it cannot be read or understood.

    The same as `read_elf(path).end`, without a look at the symbols.
    """
    try:
        data = read_foreign(Path(path), most_bytes=_MAX_BYTES, owners=None)
        return _end_of(_loads(data))
    except (UsageError, ValueError, struct.error, IndexError):
        return 0


def parse_elf(data: bytes) -> Elf:
    """Parse the bytes of a file.

    Raises:
        ValueError, struct.error, IndexError: it is not a 64-bit little-endian ELF file.
    """
    loads, head = _loads(data), _HEADER.unpack_from(data)
    sections = [_SECTION.unpack_from(data, head[6] + i * _SECTION.size) for i in range(head[12])]
    symbols = sorted(_symbols(data, sections))
    return Elf(
        end=_end_of(loads),
        segments=tuple((row[2], row[5], row[3]) for row in loads),
        values=tuple(symbol[0] for symbol in symbols),
        sizes=tuple(symbol[1] for symbol in symbols),
        names=tuple(symbol[2] for symbol in symbols),
        needs=frozenset(
            name for part, _, _, _, name in _entries(data, sections, _DYNSYM) if not part
        ),
    )


def _loads(data: bytes) -> list[tuple[int, ...]]:
    """The segments that are loaded; raises as `parse_elf`."""
    head = _HEADER.unpack_from(data)
    if head[0][:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    rows = (_SEGMENT.unpack_from(data, head[5] + i * _SEGMENT.size) for i in range(head[10]))
    return [row for row in rows if row[0] == _LOAD]


def _end_of(loads: list[tuple[int, ...]]) -> int:
    first = floor_os_page(min((row[3] for row in loads), default=0))
    return max((row[3] + row[6] for row in loads), default=0) - first


def _symbols(data: bytes, sections: list[tuple[int, ...]]) -> Iterable[tuple[int, int, str]]:
    """Address, size and name of functions and variables; the full table if there is one."""
    kinds = {section[1] for section in sections}
    wanted = _SYMTAB if _SYMTAB in kinds else _DYNSYM
    for part, kind, value, size, name in _entries(data, sections, wanted):
        if value and part and kind in (_OBJECT, _FUNCTION):
            yield value, size, name


def _entries(
    data: bytes, sections: list[tuple[int, ...]], wanted: int
) -> Iterable[tuple[int, int, int, int, str]]:
    """Section, kind, address, size and name of each symbol in tables of one type."""
    tables = (section for section in sections if section[1] == wanted)
    for section in islice(tables, _MAX_TABLES):
        strings = sections[section[6]]
        names = data[strings[4] : strings[4] + strings[5]]
        table = data[section[4] : section[4] + section[5] // _SYMBOL.size * _SYMBOL.size]
        for name, info, _, part, value, size in islice(_SYMBOL.iter_unpack(table), _MAX_SYMBOLS):
            end = names.index(b"\0", name)
            text = names[name : min(end, name + _MAX_NAME_BYTES)].decode("latin-1")
            yield part, info & 15, value, size, text


class Symbols:
    """Symbols of one process, whose perf map is in the usual place if none is named."""

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
            starts, ends, names = self._generated
            i = bisect_right(starts, address) - 1
            return names[i] if i >= 0 and address < ends[i] else "generated code"
        offset = address - mapping.start + mapping.offset
        elf = read_elf(mapping.path)
        elf = elf if elf.end else read_elf(self._root + mapping.path)
        found = elf.symbol(elf.linked(offset))
        return found or f"{PurePath(mapping.path).name}+{offset:#x}"


def read_perf_map(path: Path, owners: Iterable[int] = ()) -> tuple[list[int], list[int], list[str]]:
    """Starts, ends and names of generated code; lines that name no code are left out.

    All are empty without a file of these users, of root or of this user.
    """
    try:
        data = read_foreign(path, most_bytes=_MAX_MAP_BYTES, owners=owners)
    except UsageError:
        return [], [], []
    rows = sorted(row for line in data.split(b"\n") if (row := _code(line)) is not None)
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _code(line: bytes) -> tuple[int, int, str] | None:
    """Start, end and name of one piece of code: "START SIZE NAME", numbers in base 16."""
    words = line.split(b" ", 2)
    try:
        start, size = int(words[0], 16), int(words[1], 16)
        return start, start + size, words[2][:_MAX_NAME].decode(errors="replace")
    except (ValueError, IndexError):
        return None
