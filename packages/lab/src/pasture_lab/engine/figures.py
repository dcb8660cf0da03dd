"""The result of a part of an experiment: numbers by name. Pure data, as JSON knows it.

The name of a figure carries its part and its unit: `stock.shared_end_bytes`,
`seal.shutdown_s`; without a unit it is a count or a ratio. 1 MB is 1,000,000 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of one line of a plot, in the order of x."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    @property
    def slope(self) -> float:
        """The slope of the best straight line (least squares); 0 with less than two x."""
        count = len(self.x)
        if count < 2 or len(set(self.x)) < 2:
            return 0.0
        mean_x, mean_y = sum(self.x) / count, sum(self.y) / count
        over = sum((x - mean_x) * (y - mean_y) for x, y in zip(self.x, self.y, strict=True))
        return over / sum((x - mean_x) ** 2 for x in self.x)

    @property
    def linearity(self) -> float:
        """The coefficient of determination of that line: 1 is a straight one, 0 is not a line."""
        count = len(self.y)
        mean_x, mean_y = (sum(v) / count for v in (self.x, self.y)) if count else (0.0, 0.0)
        total = sum((y - mean_y) ** 2 for y in self.y)
        if not total:
            return 0.0
        rest = sum(
            (y - mean_y - self.slope * (x - mean_x)) ** 2
            for x, y in zip(self.x, self.y, strict=True)
        )
        return 1 - rest / total


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a part.

    Attributes:
        figures: by name, without the part's.
        curves: by the key of the plot that they belong to.
        notes: sentences about what limits the figures.
        names: for bars of words, as functions and their shares; by the key of the plot.
    """

    figures: Figures
    curves: Mapping[str, Curve] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    names: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def to_plain(measured: Measured) -> dict[str, Any]:
    """The measurements as values that JSON knows."""
    return {
        "figures": dict(measured.figures),
        "curves": {k: {"x": list(c.x), "y": list(c.y)} for k, c in measured.curves.items()},
        "notes": list(measured.notes),
        "names": {key: dict(values) for key, values in measured.names.items()},
    }


def under(part: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values with a part's name before theirs."""
    return {f"{part}.{name}": value for name, value in values.items()}


def curve(x: Sequence[float], y: Sequence[float]) -> Curve:
    """A curve from two lists of the same length."""
    return Curve(tuple(x), tuple(y))
