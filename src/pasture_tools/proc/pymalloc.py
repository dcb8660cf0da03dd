"""A pool of pymalloc: its size, and its header, known by five fields that depend on each other.

The extension knows their offsets.

Source: CPython Objects/obmalloc.c (struct pool_header).
"""

from __future__ import annotations

from dataclasses import dataclass

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import fields


@dataclass(frozen=True, slots=True)
class PoolLayout:
    """Sizes in bytes, and offsets of the fields of a header."""

    pool_bytes: int  # size of a pool, which starts at a multiple of it
    header_bytes: int  # before the first block
    step_bytes: int  # between two size classes
    max_block_bytes: int  # the largest class
    used: int  # 4 bytes, blocks handed out
    free: int  # 8 bytes, address of the first free block
    # size_class, next, last: 4 bytes each: the class, and two offsets: what was never used, the
    # last block.
    size_class: int
    next: int
    last: int

    @property
    def classes(self) -> int:
        """Number of size classes."""
        return self.max_block_bytes // self.step_bytes

    @property
    def max_blocks(self) -> int:
        """Blocks of a pool of the smallest class."""
        return (self.pool_bytes - self.header_bytes) // self.step_bytes


def own_pools() -> PoolLayout | None:
    """The layout in this interpreter; None where its extension does not know it."""
    try:
        at = fields()["(pool)"]
        return PoolLayout(
            at["bytes"],
            at["header_bytes"],
            at["step_bytes"],
            at["max_block_bytes"],
            used=at["ref"],
            free=at["freeblock"],
            size_class=at["szidx"],
            next=at["nextoffset"],
            last=at["maxnextoffset"],
        )
    except (KeyError, UnsupportedInterpreter):
        return None
