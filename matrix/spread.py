"""Median and range of repeated measurements, and ratios of measurements taken side by side.

Invariant: a ratio is formed within one round, where both sides ran under the same
conditions of the machine, and only then summed up over the rounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True)
class Spread:
    """What several rounds gave, in the unit of the measurement.

    Attributes:
        surely: values between which the true median lies with a probability of 90% or more,
            whatever the distribution; the range where the rounds are too few for that.
    """

    median: float
    low: float
    high: float
    rounds: int
    surely: tuple[float, float]

    def text(self, scale: float = 1.0) -> str:
        """As in "0.31 (0.29-0.35)"; `scale` divides."""
        return self._form(scale, "{} ({}-{})")

    def cell(self, scale: float = 1.0) -> str:
        """The same on two lines, for narrow columns."""
        return self._form(scale, "{}\n{}-{}")

    def _form(self, scale: float, form: str) -> str:
        median, low, high = (number(v / scale) for v in (self.median, self.low, self.high))
        return form.format(median, low, high) if low != high else median

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def number(value: float) -> str:
    """Three digits where there are that many, none of them in scientific notation."""
    if value == 0 or value >= 99.95:
        return f"{value:,.0f}"
    digits = 1 if value >= 9.995 else 2 if value >= 0.0995 else 3
    return f"{value:.{digits}f}"


def spread_of(values: Iterable[float]) -> Spread:
    """Raises `ValueError` where there is no value."""
    kept = sorted(values)
    if not kept:
        raise ValueError("no measurement to sum up")
    cut = values_outside(len(kept))
    surely = kept[cut], kept[-1 - cut]
    return Spread(statistics.median(kept), kept[0], kept[-1], len(kept), surely)


def values_outside(rounds: int) -> int:
    """How many values at each end can be left out of the interval that holds the median.

    The number of values below the true median is binomial with 1/2: the sign test's interval.
    """
    tail, cut = 0.0, -1
    while 2 * (tail := tail + math.comb(rounds, cut + 1) / 2**rounds) <= 1 - CONFIDENCE:
        cut += 1
    return max(cut, 0)


def paired_ratio(values: Sequence[float], others: Sequence[float]) -> Spread:
    """Of `values` to `others`, round by round."""
    return spread_of(a / b for a, b in zip(values, others, strict=True))
