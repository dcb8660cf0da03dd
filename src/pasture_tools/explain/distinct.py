"""Arrays of addresses: distinct ones without sorting all of them, and places in ascending ones."""

from __future__ import annotations

import numpy as np

from pasture_tools.proc.address_space import Array

_MAX_CODES = 1 << 24


def floor_to(step_bytes: int, addresses: Array) -> Array:
    """The multiples of a power of two at or below addresses (uint64)."""
    return addresses & np.uint64(~(step_bytes - 1) & (2**64 - 1))


def holding(starts: Array, ends: Array, addresses: Array) -> Array:
    """Index of the piece (ascending, apart) that holds each address, -1 for none; int64."""
    if not len(starts):
        return np.full(len(addresses), -1, dtype=np.int64)
    at = np.searchsorted(starts, addresses, side="right").astype(np.int64) - 1
    return np.where((at >= 0) & (addresses < ends[np.maximum(at, 0)]), at, -1)


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
    if size > _MAX_CODES:
        found: tuple[Array, Array] = np.unique(codes, return_inverse=True)
        return found
    present = np.zeros(size, dtype=bool)
    present[codes] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]


class Numbered:
    """Numbers for values of which few are distinct, the same for as long as this lives."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._sorted = np.zeros(0, dtype=np.uint64)
        self._numbers = np.zeros(0, dtype=np.int64)

    def of(self, values: Array) -> Array:
        """The number of each value (uint64); new ones are given in ascending order."""
        found, known = self._find(values)
        if not known.all():
            new = np.unique(values[~known])
            self.values += new.tolist()
            every = np.array(self.values, dtype=np.uint64)
            self._numbers = np.argsort(every)
            self._sorted = every[self._numbers]
            found, _ = self._find(values)
        return found

    def _find(self, values: Array) -> tuple[Array, Array]:
        if not len(self.values):
            return np.zeros(len(values), np.int64), np.zeros(len(values), dtype=bool)
        at = np.minimum(np.searchsorted(self._sorted, values), len(self.values) - 1)
        return self._numbers[at], self._sorted[at] == values
