"""The header of pymalloc's pools, and how one is recognised: its fields depend on each other.

Takes numbers or arrays of them; imports nothing. Invariant of CPython leaned on: the layout of
`struct pool_header`, the same from 3.11 to 3.15. Source: CPython Objects/obmalloc.c.
"""

from __future__ import annotations

from typing import Any

POOL_BYTES = 16384
HEADER_BYTES = 48
STEP_BYTES = 16
CLASSES = 32


def block_bytes(size_class: Any) -> Any:
    """Size of the blocks of a pool."""
    return (size_class + 1) * STEP_BYTES


def is_pool(used: Any, size_class: Any, next_offset: Any, last_offset: Any) -> Any:
    """Whether the fields of a header agree with each other.

    Args:
        used: blocks in use (`ref.count`).
        size_class: `szidx`.
        next_offset: offset of the first block that was never used (`nextoffset`).
        last_offset: highest offset of a block (`maxnextoffset`).
    """
    block = block_bytes(size_class)
    return (
        (size_class < CLASSES)
        & (last_offset == POOL_BYTES - block)
        & (next_offset >= HEADER_BYTES + block)
        & (next_offset <= POOL_BYTES)
        & ((next_offset - HEADER_BYTES) % block == 0)
        & (used <= (POOL_BYTES - HEADER_BYTES) // block)
    )
