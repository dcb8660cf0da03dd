"""Plots of a page in markup alone: lines over a number, bars behind names.

Owns scales and shapes, as pure functions of the values; `charts.html.j2` writes them, `page.css`
has their look. Invariant: without a script, at any width, with all figures as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, log10

WIDTH, HEIGHT = 1000, 300
"""Units of the plane that lines are drawn on, for any size on the page."""

_MAX_STEPS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """One line, and the band around it if it has one."""

    name: str
    color: str  # as CSS writes it
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()  # the band; as long as `y`, or empty
    high: Sequence[float] = ()
    is_dotted: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over one axis, both from 0."""

    lines: Sequence[Line]
    x_title: str
    unit: str

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Height in per cent and text of each line of the grid."""
        step, top = self._scale
        number = round(top / step)
        return [(100 * i / number, f"{i * step:,.10g}") for i in range(number + 1)]

    @property
    def end(self) -> str:
        """The largest number on the axis below."""
        return f"{self._last:,.10g}"

    def path(self, line: Line) -> str:
        """The line's shape."""
        return f"M{self._points(line.x, line.y)}"

    def band(self, line: Line) -> str:
        """The band's shape; "" without a band."""
        if not line.low:
            return ""
        there, back = self._points(line.x, line.high), self._points(line.x[::-1], line.low[::-1])
        return f"M{there} {back}Z"

    @property
    def _last(self) -> float:
        return max((x for line in self.lines for x in line.x), default=0.0)

    @property
    def _scale(self) -> tuple[float, float]:
        return scale(y for line in self.lines for y in (*line.y, *line.high))

    def _points(self, x: Sequence[float], y: Sequence[float]) -> str:
        right, top = self._last or 1, self._scale[1]
        points = zip(x, y, strict=True)
        return " ".join(
            f"{a * WIDTH / right:.1f},{HEIGHT - b * HEIGHT / top:.1f}" for a, b in points
        )


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, of a pale and a full part."""

    name: str
    text: str  # its figure
    color: str
    value: float
    pale: float = 0.0


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of one scale, in groups by heading; "" for no heading."""

    groups: Sequence[tuple[str, Sequence[Bar]]]

    def share(self, value: float) -> float:
        """The width of a part, per cent of the longest bar's."""
        longest = max((b.value + b.pale for _, bars in self.groups for b in bars), default=0.0)
        return 100 * value / longest if longest else 0.0


def scale(values: Iterable[float]) -> tuple[float, float]:
    """Step and end of an axis from 0: a step is 1, 2 or 5 times a power of ten."""
    largest = max(values, default=0.0)
    if largest <= 0:
        return 1.0, 1.0
    power = 10.0 ** floor(log10(largest / _MAX_STEPS))
    step = next(power * n for n in (1, 2, 5, 10) if largest <= power * n * _MAX_STEPS)
    return step, step * -(-largest // step)
