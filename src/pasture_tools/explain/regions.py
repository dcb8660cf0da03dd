"""Kinds of memory of a mapping: the interpreter's, a library's, heap, stack, other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from pathlib import PurePath

import numpy as np

from pasture.proc.maps import Mapping
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.proc import elf
from pasture_tools.proc.address_space import Array

_HEAP = "[heap]"
_INTERPRETER = re.compile(r"(python|libpython)\d?[\w.]*$")


class Region(IntEnum):
    """Kinds of mappings."""

    ANONYMOUS = 0
    HEAP = 1
    STACK = 2
    INTERPRETER = 3
    LIBRARY = 4


def _loaded_bytes(path: str) -> int:
    return -(-elf.loaded_bytes(path) // OS_PAGE_BYTES) * OS_PAGE_BYTES


class Regions:
    """The mappings of a process, ascending, by kind. Data without a file (.bss) goes with its file.

    Args:
        loaded_bytes: returns how much memory a file takes from its first mapping on.
        heaps: start and end of each heap of malloc, ascending; those of threads have no name.
    """

    def __init__(
        self,
        mappings: Sequence[Mapping],
        loaded_bytes: Callable[[str], int] = _loaded_bytes,
        heaps: Sequence[tuple[int, int]] = (),
    ) -> None:
        whole = [part for mapping in mappings for part in _cut_at_heaps(mapping, heaps)]
        self._parts, self._owners = _parts(whole, loaded_bytes)
        self._starts = np.array([m.start for m in self._parts], dtype=np.uint64)
        kinds = [_kind(m, owner) for m, owner in zip(self._parts, self._owners, strict=True)]
        self._kinds = np.array(kinds, dtype=np.uint8)

    def index(self, addresses: Array) -> Array:
        """Index of the mapping of each address; addresses must be mapped."""
        return np.maximum(np.searchsorted(self._starts, addresses, side="right") - 1, 0)

    def lookup(self, addresses: Array) -> Array:
        """`Region` of each address, uint8."""
        return self._kinds[self.index(addresses)]

    def name(self, index: int) -> str:
        """Name of the file that a mapping belongs to, or its name in brackets."""
        owner = self._owners[index]
        return PurePath(owner).name if owner else self._parts[index].path or "anonymous"


def _cut_at_heaps(mapping: Mapping, heaps: Sequence[tuple[int, int]]) -> Iterator[Mapping]:
    """A mapping, with the heaps that lie in it as mappings of their own."""
    at = mapping.start
    for start, end in heaps if not mapping.path else ():
        if start >= mapping.end or end <= at:
            continue
        if start > at:
            yield replace(mapping, start=at, end=start)
        yield replace(mapping, start=max(start, at), end=min(end, mapping.end), path=_HEAP)
        at = min(end, mapping.end)
    if at < mapping.end:
        yield replace(mapping, start=at)


def _parts(
    mappings: Sequence[Mapping], loaded_bytes: Callable[[str], int]
) -> tuple[list[Mapping], list[str]]:
    """Mappings and the file each belongs to; one is split where a .bss ends within it."""
    parts: list[Mapping] = []
    owners: list[str] = []
    first: dict[str, int] = {}
    for mapping in mappings:
        owner = mapping.path if mapping.is_file else ""
        if owner:
            first.setdefault(owner, mapping.start)
        elif parts and owners[-1] and parts[-1].end == mapping.start and not mapping.path:
            end = first[owners[-1]] + loaded_bytes(owners[-1])
            bss_end = min(max(end, mapping.start), mapping.end)
            if bss_end > mapping.start:
                parts.append(replace(mapping, end=bss_end))
                owners.append(owners[-1])
                mapping = replace(mapping, start=bss_end)
        if mapping.start < mapping.end:
            parts.append(mapping)
            owners.append(owner)
    return parts, owners


def _kind(mapping: Mapping, owner: str) -> Region:
    if mapping.path == _HEAP:
        return Region.HEAP
    if mapping.path.startswith("[stack"):
        return Region.STACK
    if not owner:
        return Region.ANONYMOUS
    return Region.INTERPRETER if is_interpreter(owner) else Region.LIBRARY


def is_interpreter(path: str) -> bool:
    """Whether a mapped file is the interpreter's program or library, by its name."""
    name = PurePath(path.removesuffix(" (deleted)")).name
    return bool(_INTERPRETER.match(name.partition(".so")[0]))
