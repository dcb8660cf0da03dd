"""What an ELF file says of itself: how much memory it takes, and which symbol is where.

Reads 64-bit little-endian files, the only ones that the extension supports. A file that is
gone or is something else gives an `Elf` without contents.

By hand, though pyelftools reads ELF: it would be in each server's install for two tables, and
makes an object of each symbol, where one pass over the table is enough here.

Source: elf(5).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path

from pasture.errors import UsageError
from pasture.proc.os_page import floor_os_page
from pasture.trust.foreign_files import read_foreign

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
_LONGEST_NAME = 4096


@dataclass(frozen=True, slots=True)
class Elf:
    """One file.

    Attributes:
        end: first address behind everything the file has loaded, .bss included, relative to
            where its first segment is loaded; 0 if unknown.
        segments: file offset, size in the file and address of what is loaded.
        values: addresses of symbols, ascending.
        sizes, names: size and name of these symbols; a size may be 0.
        needs: names of symbols that others must have.
    """

    end: int = 0
    segments: tuple[tuple[int, int, int], ...] = ()
    values: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    names: tuple[str, ...] = field(default=(), repr=False)
    needs: frozenset[str] = frozenset()

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
    """How far a file reaches in memory, .bss included; 0 if it cannot be read or understood.

    What `read_elf(path).end` says, without a look at the symbols.
    """
    try:
        data = read_foreign(Path(path), most_bytes=_MAX_BYTES, owners=None)
        return _end_of(_loads(data))
    except (UsageError, ValueError, struct.error, IndexError):
        return 0


def parse_elf(data: bytes) -> Elf:
    """Parse the bytes of a file.

    Raises:
        ValueError, struct.error, IndexError: it is no 64-bit little-endian ELF file.
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
    """The segments that are loaded.

    Raises:
        ValueError, struct.error: it is no 64-bit little-endian ELF file.
    """
    head = _HEADER.unpack_from(data)
    if head[0][:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
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
            text = names[name : min(end, name + _LONGEST_NAME)].decode("latin-1")
            yield part, info & 15, value, size, text
