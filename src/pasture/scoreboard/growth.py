"""The growth of a worker that may leak: its memory grows steadily with its requests.

Owns the judgement. Memory here is pages without a file, shared or not, so that un-sharing a page
does not count. A worker notes it each time that its number of requests has doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pasture.scoreboard.layout import Entry

_MIN_REQUESTS = 256
"""Least number of requests: at first an application builds steadily what its pages need."""

_MIN_BYTES = 1_000_000
_STEADY = 0.5
"""Least rate of growth in each span, as a part of the whole rate: a filling cache slows down."""

_NEXT = 1.25
"""A span counts if it has at least a quarter of the previous one."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Steady growth of one worker."""

    bytes_a_request: float
    since: int  # number of the request since which it grows

    def __str__(self) -> str:
        return (
            f"grows by {self.bytes_a_request / 1e3:,.1f} KB a request since request "
            f"{self.since:,}: looks like a leak"
        )


def growth_of(entry: Entry | None, anonymous_bytes: int) -> Growth | None:
    """The steady growth of a worker with this memory now, or None."""
    if entry is None or entry.requests is None:
        return None
    return judge(entry.requests, entry.marks, anonymous_bytes)


def judge(requests: int, marks: Sequence[int], now_bytes: int) -> Growth | None:
    """The steady growth by the memory at the latest powers of two, in bytes; 0 is unknown."""
    if requests < _MIN_REQUESTS or not all(marks):
        return None
    newest = 1 << (requests.bit_length() - 1)
    points = [(newest >> back, size) for back, size in zip((2, 1, 0), marks, strict=True)]
    if requests >= _NEXT * newest:
        points.append((requests, now_bytes))
    for first in range(len(points) - 2):
        (since, before), (until, after) = points[first], points[-1]
        rate = (after - before) / (until - since)
        spans = pairwise(points[first:])
        if after - before >= _MIN_BYTES and all(
            (b - a) / (n - m) >= _STEADY * rate for (m, a), (n, b) in spans
        ):
            return Growth(rate, since)
    return None
