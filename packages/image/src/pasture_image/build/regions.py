"""The copy of a frozen process: which memory comes from which file, and the pages of its own.

Pages that a process shares with a file stay that file's. All others are written into a file in
memory (memfd), each at most once.
Invariant: mapping the regions in their order gives the memory of the process, byte for byte, but
for what the kernel keeps there itself.
"""

from __future__ import annotations

import mmap
import os
import resource
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pasture.errors import ImageFailed
from pasture.proc.maps import Mapping
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_image.build.frozen import Frozen

ANONYMOUS = 0xFFFFFFFF
"""In the place of a source: memory without a file."""

OWN = ""
"""In the place of a path: the image itself."""

MAP_SHARED, MAP_PRIVATE, MAP_DROPPABLE = 0x01, 0x02, 0x08
MAP_ANONYMOUS, MAP_NORESERVE = 0x20, 0x4000
_ADVICE = {"hg": 14, "nh": 15, "dc": 10, "wf": 18, "dd": 16}
"""Of the kernel's flags of a mapping: the advice that sets them (madvise(2))."""

_GUARD = 102
"""Advice that makes pages inaccessible without a mapping of their own (Linux 6.13)."""

_GAP_OS_PAGES = 16
"""So few pages between two that are written are written too: a mapping less costs less."""

_ZERO = bytes(OS_PAGE_BYTES)
_OF_KERNEL = ("[vvar", "[vdso")
"""The kernel maps them into each process: the vDSO and its data."""


class Region(NamedTuple):
    """Memory to be mapped; a row of src/stub/manifest.h.

    Attributes:
        source: index of a file; `ANONYMOUS` without one.
        protection: of mmap(2).
        flags: of mmap(2), without `MAP_FIXED`.
        advice: of madvise(2); 0 for none.
    """

    start: int
    length: int
    offset: int
    source: int
    protection: int
    flags: int
    advice: int = 0


class Stack(NamedTuple):
    """The stack of the only thread, which must stay one mapping that can grow.

    Attributes:
        end: address behind its last byte.
        limit_bytes: that it may grow to.
        length: bytes in use.
        source: that holds them.
        offset: there.
    """

    end: int
    limit_bytes: int
    length: int
    source: int
    offset: int


@dataclass(frozen=True, slots=True)
class Image:
    """All memory of a process.

    Attributes:
        sources: paths of files; `OWN` is the one with the pages that were written.
        kernels: mappings of the kernel's own, in the order of addresses.
    """

    regions: tuple[Region, ...]
    stack: Stack
    sources: tuple[str, ...]
    kernels: tuple[Mapping, ...]


class Copy:
    """Writes the pages of a frozen process into a file."""

    def __init__(self, frozen: Frozen, file: int) -> None:
        """Prepare.

        Args:
            frozen: a process with one thread.
            file: descriptor of the new file, which is empty.
        """
        self._frozen, self._file = frozen, file
        self._sources: dict[str, int] = {}
        self._end = OS_PAGE_BYTES  # the header of a file

    def take(self) -> Image:
        """Copy all of it.

        Raises:
            ImageFailed: it has memory that another process could not have as well.
        """
        stack_pointer = self._frozen.facts["stack_pointer"]
        regions: list[Region] = []
        kernels: list[Mapping] = []
        stack = None
        for mapping in self._frozen.mappings():
            if mapping.path.startswith(_OF_KERNEL):
                kernels.append(mapping)
            elif mapping.start <= stack_pointer < mapping.end:
                stack = self._stack(mapping, stack_pointer)
            else:
                regions += self._regions(mapping)
        if stack is None:
            raise ImageFailed("the stack of the process cannot be found")
        os.ftruncate(self._file, self._end)
        sources = tuple(self._sources)
        return Image(tuple(_joined(regions)), stack, sources, tuple(kernels))

    def _stack(self, mapping: Mapping, stack_pointer: int) -> Stack:
        limit_bytes, _ = resource.getrlimit(resource.RLIMIT_STACK)
        if not 0 < limit_bytes <= 1 << 30:
            raise ImageFailed(
                "the stack has no limit, or a large one", hint="set one: ulimit -s 8192"
            )
        start = stack_pointer & -OS_PAGE_BYTES
        offset = self._write(start, mapping.end - start)
        source = self._source(OWN)
        return Stack(mapping.end, limit_bytes, mapping.end - start, source, offset)

    def _regions(self, mapping: Mapping) -> Iterator[Region]:
        base = self._base(mapping)
        guards: list[int] = []
        runs = self._runs(mapping, base, guards)
        if runs != [(0, mapping.length)]:
            yield base
        for begin, length in runs:
            start = mapping.start + begin
            offset = self._write(start, length)
            yield base._replace(
                start=start,
                length=length,
                source=self._source(OWN),
                offset=offset,
                flags=base.flags & ~MAP_ANONYMOUS,
            )
        for first, last in _grouped(guards, gap_os_pages=1):
            start = mapping.start + OS_PAGE_BYTES * first
            length = OS_PAGE_BYTES * (last + 1 - first)
            yield base._replace(start=start, length=length, advice=_GUARD)

    def _base(self, mapping: Mapping) -> Region:
        """The mapping without what the process has written to it."""
        self._require_lasting_file(mapping)
        flags, source, offset = MAP_PRIVATE | MAP_ANONYMOUS, ANONYMOUS, 0
        if _is_file(mapping):
            flags = MAP_SHARED if mapping.permissions[3] == "s" else MAP_PRIVATE
            source, offset = self._source(mapping.path), mapping.offset
        if "dp" in mapping.flags:
            flags = MAP_DROPPABLE | MAP_ANONYMOUS
        if "nr" in mapping.flags:
            flags |= MAP_NORESERVE
        advice = next((number for flag, number in _ADVICE.items() if flag in mapping.flags), 0)
        protection = _protection(mapping.permissions)
        return Region(mapping.start, mapping.length, offset, source, protection, flags, advice)

    def _source(self, path: str) -> int:
        return self._sources.setdefault(path, len(self._sources))

    def _require_lasting_file(self, mapping: Mapping) -> None:
        """Of what is shared, that it is a file that nothing writes to."""
        is_file, is_deleted = _is_file(mapping), mapping.path.endswith(" (deleted)")
        is_lasting = is_file and not is_deleted and "w" not in mapping.permissions
        if mapping.permissions[3] == "s" and not is_lasting:
            raise ImageFailed(
                f"memory is shared with other processes: {mapping.path or 'without a name'}",
                hint="a preloaded module has made it; do not preload that one",
            )
        if is_file and is_deleted:
            raise ImageFailed(
                f"a mapped file was deleted: {mapping.path}",
                hint="start it again; if that does not help, do not preload what maps the file",
            )

    def _runs(self, mapping: Mapping, base: Region, guards: list[int]) -> list[tuple[int, int]]:
        """What has to be written: pairs of begin and length, bytes.

        Pages that no code may touch, as below the stacks of threads, are added to `guards`.
        """
        if base.flags & (MAP_SHARED | MAP_DROPPABLE) == MAP_SHARED or not _keeps(mapping):
            return []
        os_pages = self._frozen.private_os_pages(mapping)
        if base.protection & mmap.PROT_EXEC and _is_file(mapping):
            os_pages = [i for i in os_pages if not self._is_as_in_file(mapping, i)]
        if base.source == ANONYMOUS:
            os_pages = [i for i in os_pages if not self._is_zero(mapping, i, guards)]
        return [
            (OS_PAGE_BYTES * first, OS_PAGE_BYTES * (last + 1 - first))
            for first, last in _grouped(os_pages)
        ]

    def _is_zero(self, mapping: Mapping, os_page: int, guards: list[int]) -> bool:
        try:
            at = mapping.start + os_page * OS_PAGE_BYTES
            return self._frozen.read(at, OS_PAGE_BYTES) == _ZERO
        except OSError:
            guards.append(os_page)
            return True

    def _is_as_in_file(self, mapping: Mapping, os_page: int) -> bool:
        """Whether code that was written is what it was before, as that of getenv(3) is."""
        at = os_page * OS_PAGE_BYTES
        try:
            with open(mapping.path, "rb") as file:  # noqa: PTH123
                file.seek(mapping.offset + at)
                there = self._frozen.read(mapping.start + at, OS_PAGE_BYTES)
                return file.read(OS_PAGE_BYTES) == there
        except OSError:
            return False

    def _write(self, address: int, length: int) -> int:
        """Append memory to the file, without pages that are zero; returns where it begins."""
        offset = self._end
        self._end += length
        for begin in range(0, length, 1 << 20):
            data = self._frozen.read(address + begin, min(1 << 20, length - begin))
            for at, part in filled(data):
                write_at(self._file, part, offset + begin + at)
        return offset


def _is_file(mapping: Mapping) -> bool:
    """Whether a file of a folder, or one in memory, is mapped."""
    return mapping.is_file and mapping.inode != 0


def _keeps(mapping: Mapping) -> bool:
    """Whether it has content that a fork keeps, and so a copy has to."""
    return mapping.permissions[:3] != "---" and not mapping.flags & {"wf", "dp"}


def _protection(perms: str) -> int:
    bits = {"r": mmap.PROT_READ, "w": mmap.PROT_WRITE, "x": mmap.PROT_EXEC}
    return sum(bit for letter, bit in bits.items() if letter in perms[:3])


def _grouped(os_pages: Iterable[int], gap_os_pages: int = _GAP_OS_PAGES) -> list[tuple[int, int]]:
    """First and last of pages that are close together."""
    groups: list[tuple[int, int]] = []
    for os_page in os_pages:
        is_close = groups and os_page - groups[-1][1] <= gap_os_pages
        first, _ = groups.pop() if is_close else (os_page, os_page)
        groups.append((first, os_page))
    return groups


def filled(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Parts of the data that are not zero, with where they begin."""
    size = OS_PAGE_BYTES
    os_pages = range(-(-len(data) // size))
    is_filled = (i for i in os_pages if data[size * i : size * (i + 1)] != _ZERO)
    for first, last in _grouped(is_filled, gap_os_pages=1):
        yield size * first, data[size * first : size * (last + 1)]


def write_at(file: int, data: bytes | bytearray, offset: int) -> None:
    """All of it: the kernel may take a part at a time."""
    left = memoryview(data)
    while left:
        written = os.pwrite(file, left, offset)
        left, offset = left[written:], offset + written


def _joined(regions: Iterable[Region]) -> list[Region]:
    """Neighbours that can be mapped at once are."""
    joined: list[Region] = []
    for region in regions:
        if joined and _follows(joined[-1], region):
            before = joined.pop()
            region = before._replace(length=before.length + region.length)
        joined.append(region)
    return joined


def _follows(before: Region, region: Region) -> bool:
    return (
        before.start + before.length == region.start
        and before.source == region.source
        and (region.source == ANONYMOUS or before.offset + before.length == region.offset)
        and (before.protection, before.flags, before.advice)
        == (region.protection, region.flags, region.advice)
    )
