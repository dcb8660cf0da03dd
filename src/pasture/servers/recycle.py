"""When a worker is replaced for the memory that it alone holds: USS, not RSS.

RSS counts pages that are shared with the parent. A limit on it replaces workers that cost next to
nothing and keeps those that grew. Owns the decision; the server ends the worker. Invariant:
`UssWatch` notices a worker before it has passed its limit by more than one request's growth.
"""

from __future__ import annotations

import random
import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pasture.errors import UsageError
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


def most_bytes_per_fault() -> int:
    """The most private memory that one fault can bring on this machine."""
    try:
        always = "[always]" in (_THP / "enabled").read_text()
        huge = int((_THP / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        return _FAULT_AROUND_BYTES
    return huge if always else _FAULT_AROUND_BYTES


class UssWatch:
    """Whether this worker has passed its limit. One a worker, made after the fork.

    The private memory of a process grows only through page faults, which are cheap to count. It is
    read again only when the faults since the last reading could have reached the limit.
    """

    def __init__(
        self,
        limit: MemoryLimit,
        *,
        uss: Callable[[], int] = own_private_bytes,
        faults: Callable[[], int] = read_faults,
        bytes_per_fault: int | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.limit_bytes = limit.of_one_worker(draw)
        self.uss_bytes = 0
        self._uss, self._faults = uss, faults
        per_fault = most_bytes_per_fault() if bytes_per_fault is None else bytes_per_fault
        self._bytes_per_fault = per_fault
        self._faults_then = 0
        self._requests = LOOK_AT_LEAST_EVERY
        self._looking = threading.Lock()
        self._has_said_so = False

    def has_passed(self) -> bool:
        """Whether the worker is to be replaced; true once only. In the worker, after each request.

        Several threads may serve requests.
        """
        if self._has_said_so or not self._looking.acquire(blocking=False):
            return False
        try:
            self._has_said_so = self._look()
            return self._has_said_so
        finally:
            self._looking.release()

    def _look(self) -> bool:
        self._requests += 1
        faults = self._faults()
        if self._requests < LOOK_AT_LEAST_EVERY:
            most = self.uss_bytes + (faults - self._faults_then) * self._bytes_per_fault
            if most <= self.limit_bytes:
                return False
        self.uss_bytes, self._faults_then, self._requests = self._uss(), faults, 0
        return self.uss_bytes > self.limit_bytes

    def __str__(self) -> str:
        return (
            f"private memory of {self.uss_bytes / 1e6:.1f} MB passes this worker's limit of "
            f"{self.limit_bytes / 1e6:.1f} MB"
        )
