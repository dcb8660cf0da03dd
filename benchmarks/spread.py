"""Median and range of repeated measurements, and ratios of measurements taken side by side.

Invariant: a ratio is formed within one round, where both sides ran under the same
conditions of the machine, and only then summed up over the rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """What several rounds gave, in the unit of the measurement."""

    median: float
    low: float
    high: float
    rounds: int

    def text(self, scale: float = 1.0) -> str:
        """As in "0.31 (0.29-0.35)"; `scale` divides."""
        return self._form(scale, "{} ({}-{})")

    def cell(self, scale: float = 1.0) -> str:
        """The same on two lines, for narrow columns."""
        return self._form(scale, "{}\n{}-{}")

    def _form(self, scale: float, form: str) -> str:
        median, low, high = (number(v / scale) for v in (self.median, self.low, self.high))
        return form.format(median, low, high) if low != high else median

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def number(value: float) -> str:
    """Three digits where there are that many, none of them in scientific notation."""
    if value == 0 or value >= 99.95:
        return f"{value:,.0f}"
    digits = 1 if value >= 9.995 else 2 if value >= 0.0995 else 3
    return f"{value:.{digits}f}"


def spread_of(values: Iterable[float]) -> Spread:
    """Raises `ValueError` where there is no value."""
    kept = list(values)
    if not kept:
        raise ValueError("no measurement to sum up")
    return Spread(statistics.median(kept), min(kept), max(kept), len(kept))


def paired_ratio(values: Sequence[float], others: Sequence[float]) -> Spread:
    """Of `values` to `others`, round by round."""
    return spread_of(a / b for a, b in zip(values, others, strict=True))
