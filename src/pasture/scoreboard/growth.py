"""Whether a worker looks as if it leaks: what it holds grows with its requests, and goes on to.

Owns the judgement. Memory is what no file backs, shared or not, so that a page that a worker no
longer shares changes nothing. A worker notes it each time that its number of requests has doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pasture.scoreboard.layout import Entry

_MIN_REQUESTS = 256
"""With fewer, an application still builds as steadily what each of its pages needs at first."""

_MIN_BYTES = 1_000_000
_STEADY = 0.5
"""Least part of the whole rate at which it grew in each span: a cache that fills grows less."""

_NEXT = 1.25
"""A span shorter than a quarter of the one before says little."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Steady growth of one worker."""

    bytes_a_request: float
    since: int  # number of the request since which

    def __str__(self) -> str:
        return (
            f"grows by {self.bytes_a_request / 1e3:,.1f} KB a request since request "
            f"{self.since:,}: looks like a leak"
        )


def growth_of(entry: Entry | None, anonymous_bytes: int) -> Growth | None:
    """The growth of a worker that holds so much now; None without one that is steady."""
    if entry is None or entry.requests is None:
        return None
    return judge(entry.requests, entry.marks, anonymous_bytes)


def judge(requests: int, marks: Sequence[int], now_bytes: int) -> Growth | None:
    """The same, of its memory at the latest powers of two, bytes; 0 is not known."""
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
