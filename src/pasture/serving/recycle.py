"""The replacement of workers by their private memory: USS, not RSS, which counts shared pages.

Owns the decision; the server ends the worker. Invariant: `UssWatch` notices a worker before it has
passed its limit by more than the growth of one request for each of its threads.
"""

from __future__ import annotations

import random
import resource
import threading
from collections.abc import Callable
from typing import NamedTuple

from pasture.errors import UsageError
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture.proc.own_memory import read_own_memory
from pasture.proc.smaps import own_private_bytes
from pasture.sizing import parse_bytes

MIN_BYTES = 2**20
_JITTER = 0.1
"""A worker's own limit is lower by up to this part: equal workers end at different times."""
LOOK_AT_LEAST_EVERY = 1000
"""Number of requests. Pages can become private without a fault of this process, when others end."""


def parse_limit(text: str) -> int:
    """A limit as a user writes it: `200M`, `1.5G`, or bytes. Raises a UsageError for other text."""
    limit_bytes = parse_bytes(text)
    if limit_bytes < MIN_BYTES:
        raise UsageError(
            f"a limit of {text} would replace workers endlessly",
            hint="a worker needs some megabytes",
        )
    return limit_bytes


class Usage(NamedTuple):
    """The kernel's counts for a process, read in a microsecond."""

    faults: int  # page faults so far
    peak_bytes: int  # the peak of resident memory so far


def read_usage() -> Usage:
    """The counts of this process now. Source: getrusage(2)."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(usage.ru_minflt + usage.ru_majflt, usage.ru_maxrss * 1024)


def read_resident_bytes() -> int:
    """Resident memory of this process. Takes 8 microseconds, and the GIL three times."""
    return read_own_memory().resident_bytes


class _Look(NamedTuple):
    faults: int  # read first, so that growth meanwhile counts
    resident_bytes: int
    uss_bytes: int


class UssWatch:
    """The check whether a worker has passed its limit, made in each worker after the fork.

    The private memory of a process grows only through page faults, which are cheap to count, and
    by which resident memory grows. It is read again only when faults since the last reading could
    have brought it to the limit. A worker that gives back as much shared memory as it takes in huge
    pages is noticed after `LOOK_AT_LEAST_EVERY` requests. Several threads may check at once.
    """

    def __init__(
        self,
        limit_bytes: int,
        *,
        uss: Callable[[], int] = own_private_bytes,
        usage: Callable[[], Usage] = read_usage,
        resident: Callable[[], int] = read_resident_bytes,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.limit_bytes = int(limit_bytes * (1 - _JITTER * draw()))
        self._of_all_bytes = limit_bytes
        self.uss_bytes = 0  # when it had passed the limit
        self._uss, self._usage, self._resident = uss, usage, resident
        self._last = _Look(0, 0, 0)
        self._requests = LOOK_AT_LEAST_EVERY
        self._reports = threading.Lock()  # taken by the one thread that reports

    def has_passed(self) -> bool:
        """Whether to replace the worker; true only once. After each request, in any thread."""
        if self._reports.locked():
            return False
        self._requests += 1
        if self._requests < LOOK_AT_LEAST_EVERY and not self._may_have_passed(self._last):
            return False
        look = _Look(self._usage().faults, self._resident(), self._uss())
        self._last, self._requests = look, 0
        if look.uss_bytes <= self.limit_bytes or not self._reports.acquire(blocking=False):
            return False
        self.uss_bytes = look.uss_bytes
        return True

    def _may_have_passed(self, last: _Look) -> bool:
        faults, peak_bytes = self._usage()
        headroom = self.limit_bytes - last.uss_bytes - (faults - last.faults) * OS_PAGE_BYTES
        return headroom < 0 or (
            peak_bytes - last.resident_bytes > headroom
            and self._resident() - last.resident_bytes > headroom
        )

    def __str__(self) -> str:
        from pasture.scoreboard.recorder import (
            recorder,  # imported now: a command reads limits without it
        )

        growth = recorder.growth()
        return (
            f"private memory of {self.uss_bytes / 1e6:.1f} MB passes this worker's limit of "
            f"{self.limit_bytes / 1e6:.1f} MB ({self._of_all_bytes / 1e6:.1f} MB less its jitter)"
            + (f"; it {growth}" if growth else "")
        )
