"""What kind of memory a mapping is: the interpreter's, a library's, heap, stack, other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from pathlib import PurePath

import numpy as np

from pasture.observe.memory import Array, Mapping

_INTERPRETER = re.compile(r"(python|libpython)\d?[\w.]*$")


class Region(IntEnum):
    """Kinds of mappings."""

    ANONYMOUS = 0
    HEAP = 1
    STACK = 2
    INTERPRETER = 3
    LIBRARY = 4


class Regions:
    """The mappings of a process by kind. Data without a file (.bss) goes with its file."""

    def __init__(self, mappings: Sequence[Mapping]) -> None:
        self._mappings = mappings
        self._starts = np.array([m.start for m in mappings], dtype=np.uint64)
        self._owners = _owners(mappings)
        kinds = [_kind(m, owner) for m, owner in zip(mappings, self._owners, strict=True)]
        self._kinds = np.array(kinds, dtype=np.uint8)

    def index(self, addresses: Array) -> Array:
        """Index of the mapping of each address; addresses must be mapped."""
        return np.maximum(np.searchsorted(self._starts, addresses, side="right") - 1, 0)

    def lookup(self, addresses: Array) -> Array:
        """`Region` of each address, uint8."""
        return self._kinds[self.index(addresses)]

    def kind(self, index: int) -> Region:
        return Region(int(self._kinds[index]))

    def name(self, index: int) -> str:
        """Name of the file that a mapping belongs to, or its name in brackets."""
        owner = self._owners[index]
        return PurePath(owner).name if owner else self._mappings[index].path or "anonymous"


def _owners(mappings: Sequence[Mapping]) -> list[str]:
    """The file of each mapping; an anonymous one right behind a file's data is its .bss."""
    owners: list[str] = []
    for i, mapping in enumerate(mappings):
        before = mappings[i - 1] if i else None
        follows = before is not None and before.end == mapping.start
        if mapping.is_file:
            owners.append(mapping.path)
        elif (
            follows
            and before is not None
            and before.is_file
            and "w" in mapping.permissions
            and before.permissions.startswith("rw")
            and mapping.path in ("", "[anon:.bss]")
        ):
            owners.append(before.path)
        else:
            owners.append("")
    return owners


def _kind(mapping: Mapping, owner: str) -> Region:
    if mapping.path == "[heap]":
        return Region.HEAP
    if mapping.path.startswith("[stack"):
        return Region.STACK
    if not owner:
        return Region.ANONYMOUS
    name = PurePath(owner.removesuffix(" (deleted)")).name
    return Region.INTERPRETER if _is_interpreter(name) else Region.LIBRARY


def _is_interpreter(name: str) -> bool:
    base = name.partition(".so")[0]
    return bool(_INTERPRETER.match(base))
