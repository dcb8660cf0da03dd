"""Shortages of processes, memory or descriptors, and the time of the next try.

A server must not end because it cannot fork: its workers would end, too.
"""

from __future__ import annotations

import errno

_SHORTAGES = frozenset(
    (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT)
)
_FIRST_S = 1.0
_MAX_S = 30.0


def is_shortage(error: BaseException) -> bool:
    """Whether the same call may succeed later. Source: fork(2), open(2)."""
    return isinstance(error, OSError) and error.errno in _SHORTAGES


class Backoff:
    """The time of the next try: twice as long after each failure in a row."""

    def __init__(self, first_s: float = _FIRST_S, max_s: float = _MAX_S) -> None:
        self.failures = 0
        self._first_s, self._max_s = first_s, max_s
        self._not_before = 0.0

    def failed(self, now: float) -> float:
        """Record a failure; returns the seconds until the next try."""
        wait_s = min(self._first_s * 2.0**self.failures, self._max_s)
        self.failures += 1
        self._not_before = now + wait_s
        return wait_s

    def succeeded(self) -> None:
        self.failures = 0

    def may_try(self, now: float) -> bool:
        return now >= self._not_before
