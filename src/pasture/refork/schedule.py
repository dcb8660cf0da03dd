"""The moment of the next generation, by requests, failures and saving. Pure.

Both figures of a saving are taken with workers that have served about as many requests, because
a fresh worker shares more than it will keep: `after` counts once the workers of the new
generation have served on average as many as those of the old one had.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pasture.errors import UsageError
from pasture.refork.shortage import Backoff

MIN_SAVING = 0.01
"""Fraction of the server's memory. A smaller saving, within the spread, ends the reforks."""

MAX_FAILURES = 3
"""Number of failures in a row after which rollouts stop until a reload."""

_HINT = "as in 50,500,2000: requests that a worker has served, by generation"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Requests by generation."""

    limits: tuple[int, ...]  # numbers of at least 1; the last one counts for all later generations

    def limit(self, level: int) -> int:
        """Requests that make a worker a candidate after `level` successful rollouts."""
        return self.limits[min(level, len(self.limits) - 1)]

    def __str__(self) -> str:
        return ",".join(map(str, self.limits))


class Attempts:
    """The time of the next rollout; pauses double with failures in a row."""

    def __init__(self, schedule: Schedule, backoff_s: float) -> None:
        self._schedule, self._backoff = schedule, Backoff(backoff_s, math.inf)
        self._level = 0
        self._stopped = False
        self._refusal = ""

    @property
    def limit(self) -> int:
        """Requests that make a worker a candidate for the next rollout."""
        return self._schedule.limit(self._level)

    def may_start(self, now: float) -> bool:
        return not self._stopped and self._backoff.may_try(now)

    def stop(self) -> None:
        """Stop rollouts: reforks do not pay."""
        self._stopped = True

    def succeeded(self) -> None:
        self._level += 1
        self._refusal = ""
        self._backoff.succeeded()

    def lost(self) -> None:
        """The latest generation is lost: the next rollout has to reach its level again."""
        self._level = max(0, self._level - 1)

    def failed(self, now: float, refusal: str = "") -> str:
        """Record a failure; returns the time of the next try, in words.

        A `refusal` is a worker's reason; two equal ones in a row are the application's fault.
        """
        wait_s = self._backoff.failed(now)
        if refusal and refusal == self._refusal:
            self._stopped = True
            return "as for the worker before it, no further try until the next HUP"
        self._refusal = refusal
        if self._backoff.failures >= MAX_FAILURES:
            self._stopped = True
            return f"{self._backoff.failures} failures in a row, no further try until the next HUP"
        return f"the next try is in {wait_s:.0f} s at the earliest"


def parse_schedule(text: str) -> Schedule:
    """A schedule as a user writes it, as in `50,500,2000`; UsageError for other text."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise UsageError(f"{text!r} is not a refork schedule", hint=_HINT)
    return Schedule(tuple(map(int, words)))


@dataclass(slots=True)
class Payoff:
    """The saving of one rollout in the server's total PSS, once it can be measured."""

    generation: int  # the rollout's target
    before_bytes: int | None  # None before the measurement, or if it failed
    settled_at: float  # requests a worker, on average, from which `after` counts

    def verdict(self, after_bytes: int | None) -> tuple[bool, str] | None:
        """Whether the rollout pays, and a sentence; None without a measurement."""
        before_bytes = self.before_bytes
        if before_bytes is None or after_bytes is None:
            return None
        saved_bytes = before_bytes - after_bytes
        figures = (
            f"total PSS {before_bytes / 1e6:.1f} MB before, {after_bytes / 1e6:.1f} MB "
            f"after, at {round(self.settled_at)} requests a worker"
        )
        if saved_bytes >= MIN_SAVING * before_bytes:
            share = 100 * saved_bytes / before_bytes
            return True, f"generation {self.generation} saves {share:.0f} %: {figures}"
        end = "no further refork until the next HUP"
        return False, f"generation {self.generation} does not pay: {figures}; {end}"
