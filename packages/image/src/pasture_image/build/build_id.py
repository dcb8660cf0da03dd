"""The build-id of a library: a hash of its content that the linker has written into it.

Source: elf(5), section "Notes". gcc and clang write one where `--build-id` is given or the default;
some linkers (of Rust, of python-build-standalone) write none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_NOTE = struct.Struct("<3I")
_MAGIC = b"\x7fELF\x02\x01"
_NOTES, _BUILD_ID = 4, 3
_MAX_BYTES = 64


class BuildId(NamedTuple):
    """Where in a file it is, and its bytes."""

    offset: int
    data: bytes


def build_id(content: bytes) -> BuildId | None:
    """The build-id of a file; None where it has none, or is no 64-bit ELF file.

    Args:
        content: of the file: a mapping will do.
    """
    try:
        for kind, offset, length in _segments(content):
            if kind == _NOTES and (found := _in_notes(content, offset, offset + length)):
                return found
    except struct.error:
        pass  # cut off
    return None


def _segments(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Kind, offset and length of each part that program headers name; of ELF files."""
    if content[:6] != _MAGIC:
        return
    _, _, _, _, _, table, _, _, _, size, count, *_ = _HEADER.unpack_from(content)
    for i in range(count):
        kind, _, offset, _, _, length, *_ = _SEGMENT.unpack_from(content, table + i * size)
        yield kind, offset, length


def _in_notes(content: bytes, at: int, end: int) -> BuildId | None:
    while at + _NOTE.size <= end:
        name_bytes, length, kind = _NOTE.unpack_from(content, at)
        name = at + _NOTE.size
        data = name + _aligned(name_bytes)
        if kind == _BUILD_ID and content[name : name + 4] == b"GNU\0" and 0 < length <= _MAX_BYTES:
            found = bytes(content[data : data + length])
            return BuildId(data, found) if len(found) == length else None
        at = data + _aligned(length)
    return None


def _aligned(length: int) -> int:
    return length + 3 & ~3
