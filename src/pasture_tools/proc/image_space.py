"""The memory of a program out of an image at its start: the image's file.

A program maps the file, so each page that it has not written to is the file's. Read with the
interface of `AddressSpace`, the file stands for a parent. Memory that the program maps from other
files without writing to it, such as code and names of types, is read from the program.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pasture.errors import NoPrivilege, UsageError
from pasture.proc import privilege
from pasture.proc.maps import Mapping
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.proc.address_space import MAX_READ_BYTES, WORD_BYTES, AddressSpace, Array
from pasture_tools.proc.images import find_image, open_mapped

_HEAP = "[heap]"


def without_image(mappings: Sequence[Mapping], image: str) -> tuple[Mapping, ...]:
    """Mappings with the names that they had in the process that an image was made from."""
    found: list[Mapping] = []
    for mapping in reversed(mappings):
        name = "" if mapping.path == image else mapping.path
        after = found[-1] if found else None
        if not name and after and after.path == _HEAP and mapping.end == after.start:
            name = _HEAP  # the kernel knows only how far malloc has moved its end since
        found.append(replace(mapping, path=name, inode=mapping.inode if name else 0))
    return tuple(reversed(found))


class ImageSpace(AddressSpace):
    """The memory of a program in its image.

    Args:
        program: its memory now.

    Raises:
        UsageError: it does not run out of an image.
        NoPrivilege: the image cannot be read.
    """

    def __init__(self, program: AddressSpace) -> None:
        self.pid = program.pid
        self._program = program
        first = find_image(program.pid, program.mappings)
        if first is None:
            raise UsageError(f"process {self.pid} does not run out of an image")
        self.path = first.path
        of_image = [mapping for mapping in program.mappings if mapping.path == self.path]
        try:
            self._memory = open_mapped(self.pid, first)
        except OSError as error:
            raise NoPrivilege(
                f"the image of process {self.pid} cannot be read: {error.strerror}",
                hint=privilege.hint("CAP_SYS_PTRACE", "run pasture as root"),
            ) from None
        self._in_file = {m.start: m.offset for m in of_image}
        self.mappings = tuple(
            m
            for m in program.mappings
            if m.start in self._in_file or (m.is_file and "w" not in m.permissions)
        )

    def read(self, address: int, size_bytes: int) -> bytes:
        """Bytes at an address, 64 MB at most; fewer where the image ends."""
        found, wanted = b"", min(size_bytes, MAX_READ_BYTES)
        while len(found) < wanted:
            part = self._part(address + len(found), wanted - len(found))
            if not part:
                break
            found += part
        return found

    def _part(self, address: int, size_bytes: int) -> bytes:
        mapping = self.find(address)
        if mapping is None:
            return b""
        size = min(size_bytes, mapping.end - address)
        offset = self._in_file.get(mapping.start)
        if offset is None:
            return self._program.read(address, size)
        # Pages behind the end of the file were zeros.
        return os.pread(self._memory, size, offset + address - mapping.start).ljust(size, b"\0")

    def has_pages(self, mapping: Mapping, addresses: Array) -> Array:
        """Always true: the file has each page that it maps."""
        return np.ones(len(addresses), dtype=bool)

    def os_pages_there(self, addresses: Array) -> Array:
        """As `os_pages`: reading a file makes no pages."""
        return self.os_pages(addresses)

    def _read_into(self, address: int, words: Array) -> bool:
        size = len(words) * OS_PAGE_BYTES
        found = self.read(address, size)
        words.reshape(-1)[: len(found) // WORD_BYTES] = np.frombuffer(found, dtype=np.uint64)
        return len(found) == size
