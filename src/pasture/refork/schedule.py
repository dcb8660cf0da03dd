"""When there is a next generation: after how many requests, failures, and for what saving. Pure.

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
"""Fraction of the server's memory. A refork that saves less is the last one: that is within the
spread of the figure itself."""

MAX_FAILURES = 3
"""In a row; then no further rollout starts until a reload."""

_HINT = "as in 50,500,2000: requests that a worker has served, by generation"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Requests by generation."""

    # One number or more, each at least 1; the last holds for all later generations.
    limits: tuple[int, ...]

    def limit(self, level: int) -> int:
        """Requests that make a worker a candidate after `level` successful rollouts."""
        return self.limits[min(level, len(self.limits) - 1)]

    def __str__(self) -> str:
        return ",".join(map(str, self.limits))


class Attempts:
    """The time of the next rollout, after those before; pauses double with failures in a row."""

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
        """No further rollout: reforks do not pay."""
        self._stopped = True

    def succeeded(self) -> None:
        self._level += 1
        self._refusal = ""
        self._backoff.succeeded()

    def lost(self) -> None:
        """The latest generation is gone: the next rollout has to reach the same level again."""
        self._level = max(0, self._level - 1)

    def failed(self, now: float, refusal: str = "") -> str:
        """Returns when the next try is, for the log; a `refusal` is why a worker cannot become one.

        What two workers in a row say in the same words is the application's.
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
    """A schedule as a user writes it, as in `50,500,2000`; UsageError if it is none."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise UsageError(f"{text!r} is not a refork schedule", hint=_HINT)
    return Schedule(tuple(map(int, words)))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one rollout."""

    generation: int  # the one that was reached
    # before_bytes, after_bytes: total PSS of the server.
    before_bytes: int
    after_bytes: int
    requests: int  # how many a worker had served on average, both times

    @property
    def saved_bytes(self) -> int:
        return self.before_bytes - self.after_bytes

    @property
    def pays(self) -> bool:
        return self.saved_bytes >= MIN_SAVING * self.before_bytes

    def __str__(self) -> str:
        figures = (
            f"total PSS {self.before_bytes / 1e6:.1f} MB before, {self.after_bytes / 1e6:.1f} MB "
            f"after, at {self.requests} requests a worker"
        )
        if self.pays:
            share = 100 * self.saved_bytes / self.before_bytes
            return f"generation {self.generation} saves {share:.0f} %: {figures}"
        return (
            f"generation {self.generation} does not pay: {figures}; no further refork "
            "until the next HUP"
        )


@dataclass(slots=True)
class Payoff:
    """The open question of one rollout."""

    generation: int
    before_bytes: int | None  # None while it is not measured, or cannot be
    settled_at: float  # requests a worker, on average, from which `after` counts

    def verdict(self, after_bytes: int) -> Verdict | None:
        """None where there is nothing to compare with."""
        if self.before_bytes is None:
            return None
        return Verdict(self.generation, self.before_bytes, after_bytes, round(self.settled_at))
