"""When a worker is replaced for the memory that it alone holds: USS, not RSS.

RSS counts pages that are shared with the parent. A limit on it replaces workers that cost next to
nothing and keeps those that grew. Owns the decision; the server ends the worker. Invariant:
`UssWatch` notices a worker before it has passed its limit by more than the growth of one request
for each of its threads.
"""

from __future__ import annotations

import random
import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pasture.errors import UsageError
from pasture.proc.own_memory import read_own_memory
from pasture.proc.smaps import own_private_bytes
from pasture.sizing import parse_bytes

_THP = Path("/sys/kernel/mm/transparent_hugepage")
_FAULT_AROUND_BYTES = 64 * 2**10

MIN_BYTES = 2**20
DEFAULT_JITTER = 0.1
LOOK_AT_LEAST_EVERY = 1000
"""Requests. Pages can become private without a fault of this process, when others end."""


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """How much private memory a worker may hold."""

    limit_bytes: int  # above it a worker is replaced
    # The largest fraction by which a worker's own limit is lower, so that workers that grow alike
    # do not all go at once.
    jitter: float = DEFAULT_JITTER

    def of_one_worker(self, draw: Callable[[], float] = random.random) -> int:
        """One worker's own limit, bytes. Drawn anew for each."""
        return int(self.limit_bytes * (1 - self.jitter * draw()))


def parse_limit(text: str, jitter: str | float = DEFAULT_JITTER) -> MemoryLimit:
    """A limit as a user writes it: `200M`, `1.5G`, or bytes. Raises a UsageError at nonsense."""
    try:
        limit, fraction = parse_bytes(text), float(jitter)
    except (UsageError, ValueError):
        raise UsageError(
            f"{text!r} with jitter {jitter} is no limit of memory", hint="as in 200M, 1.5G"
        ) from None
    if limit < MIN_BYTES or not 0 <= fraction < 1:
        raise UsageError(
            f"a limit of {text} with jitter {jitter} would replace workers without end",
            hint="a worker needs some megabytes; the jitter is a fraction such as 0.1",
        )
    return MemoryLimit(limit, fraction)


def read_faults() -> int:
    """Page faults of this process so far. Costs a microsecond."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt


def read_heap_bytes() -> int:
    """Resident memory of this process that no file backs, shared or not. Costs 8 microseconds."""
    return read_own_memory().heap_bytes


def max_bytes_per_fault() -> int:
    """The most memory that one page fault can bring on this machine."""
    try:
        never = "[never]" in (_THP / "enabled").read_text()
        huge = int((_THP / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        return _FAULT_AROUND_BYTES  # a kernel without huge pages
    return _FAULT_AROUND_BYTES if never else huge


class _Look(NamedTuple):
    """One reading of the memory: the counts first, so that it misses no growth since these."""

    faults: int
    heap_bytes: int
    uss_bytes: int


class UssWatch:
    """Whether this worker has passed its limit. One a worker, made after the fork.

    The private memory of a process grows only through page faults, which are cheap to count. A
    fault brings a few pages, or a huge page, by which the heap grows. The private memory is read
    again only when both together could have brought it to the limit since the last reading. A
    worker that gives back as much of its shared heap as it takes in huge pages is noticed after
    `LOOK_AT_LEAST_EVERY` requests.

    Threads look side by side: one that is kept from running in its look would else hide what the
    others do.
    """

    def __init__(
        self,
        limit: MemoryLimit,
        *,
        uss: Callable[[], int] = own_private_bytes,
        faults: Callable[[], int] = read_faults,
        heap: Callable[[], int] = read_heap_bytes,
        bytes_per_fault: int | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.limit_bytes = limit.of_one_worker(draw)
        self.uss_bytes = 0  # when it had passed the limit
        self._uss, self._faults, self._heap = uss, faults, heap
        self._max_per_fault = max_bytes_per_fault() if bytes_per_fault is None else bytes_per_fault
        self._last = _Look(0, 0, 0)
        self._requests = LOOK_AT_LEAST_EVERY
        self._reports = threading.Lock()  # kept by the one thread that reports

    def has_passed(self) -> bool:
        """Whether the worker is to be replaced; true once only. In the worker, after each request.

        Several threads may serve requests.
        """
        if self._reports.locked():
            return False
        self._requests += 1
        if self._requests < LOOK_AT_LEAST_EVERY and not self._may_have_passed(self._last):
            return False
        look = _Look(self._faults(), self._heap(), self._uss())
        self._last, self._requests = look, 0
        if look.uss_bytes <= self.limit_bytes or not self._reports.acquire(blocking=False):
            return False
        self.uss_bytes = look.uss_bytes
        return True

    def _may_have_passed(self, last: _Look) -> bool:
        headroom = self.limit_bytes - last.uss_bytes
        faults = self._faults() - last.faults
        if faults * self._max_per_fault <= headroom:
            return False
        grown = max(0, self._heap() - last.heap_bytes)
        return faults * _FAULT_AROUND_BYTES + grown > headroom

    def __str__(self) -> str:
        return (
            f"private memory of {self.uss_bytes / 1e6:.1f} MB passes this worker's limit of "
            f"{self.limit_bytes / 1e6:.1f} MB"
        )
