"""When there is a next generation: after how many requests, and if what saving so far."""

from __future__ import annotations

from dataclasses import dataclass

from pasture.errors import UsageError

LEAST_SAVING = 0.01
"""Less is within what the figure itself wavers by."""

_HINT = "as in 50,500,2000: requests that a worker has served, by generation"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Requests by generation.

    Attributes:
        limits: at least one, each at least 1; the last one holds for all later generations.
        least_saving: fraction of the server's memory that a refork has to save, or it is the
            last one.
    """

    limits: tuple[int, ...]
    least_saving: float = LEAST_SAVING

    def limit(self, level: int) -> int:
        """Requests that make a worker a candidate after `level` successful rounds."""
        return self.limits[min(level, len(self.limits) - 1)]

    def __str__(self) -> str:
        return ",".join(map(str, self.limits))


def parse_schedule(text: str, least_saving: str | float = LEAST_SAVING) -> Schedule:
    """A schedule as a user writes it: `50,500,2000`.

    Raises:
        UsageError: it cannot be understood.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise UsageError(f"{text!r} is no schedule of reforks", hint=_HINT)
    try:
        return Schedule(tuple(map(int, words)), float(least_saving))
    except ValueError:
        raise UsageError(f"{least_saving!r} is no fraction", hint="as in 0.01") from None
