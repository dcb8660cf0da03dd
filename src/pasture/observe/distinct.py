"""Distinct values without sorting, where something is known of the values."""

from __future__ import annotations

import numpy as np

from pasture.observe.memory import Array

_MOST_CODES = 1 << 24


def of_ascending(values: Array) -> Array:
    """The distinct values of an array that is ascending already."""
    if not len(values):
        return values
    first = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]


def of_codes(codes: Array) -> tuple[Array, Array]:
    """Distinct values of small non-negative numbers, and for each entry its place in them."""
    size = int(codes.max()) + 1 if len(codes) else 0
    if size > _MOST_CODES:
        found: tuple[Array, Array] = np.unique(codes, return_inverse=True)
        return found
    present = np.zeros(size, dtype=bool)
    present[codes] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]
