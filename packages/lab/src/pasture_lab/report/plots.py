"""The plots of a lab's page: what is drawn, and the colour of each part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pasture_lab.engine.experiment import Plot
from pasture_lab.engine.runner import Result
from pasture_tools.display.charts import Bar, Bars, Line, Lines
from pasture_tools.display.units import BYTES_PER_MB
from pasture_tools.trial import plots

COLORS = {**plots.COLORS, "side-table": "#b5596a"}
_MORE_COLORS = ("#c8553d", "#3b9aa5", "#a07d2c", "#94518f", "#557a2f", "#4466aa", "#777777")
_MAX_NAMES = 8
_DOTTED = ("limit-", "perf-")


def drawn(plot: Plot, result: Result) -> Lines | Bars | None:
    """The content of a plot; None if none of it was measured."""
    if plot.kind == "lines":
        parts = _parts(plot, result.curves)
        return _lines(plot, result, parts) if parts else None
    parts = _parts(plot, result.figures if plot.kind == "bars" else result.names)
    draw = _bars if plot.kind == "bars" else _names
    return draw(plot, result, parts) if parts else None


def color_of(part: str, place: int) -> str:
    """The colour of a part: a policy's own, if it is named for one, alone or behind a prefix."""
    policy = part if part in COLORS else part.partition("-")[2]
    return COLORS.get(policy, _MORE_COLORS[place % len(_MORE_COLORS)])


def _lines(plot: Plot, result: Result, parts: Sequence[str]) -> Lines:
    lines = []
    for place, part in enumerate(parts):
        curve = result.curves[f"{part}.{plot.key}"]
        y = _scaled(plot.key, curve.y)
        dotted = part.startswith(_DOTTED)  # apart from the policy's own line
        lines.append(Line(part, color_of(part, place), curve.x, y, is_dotted=dotted))
    return Lines(lines, plot.x_title, plot.y_title)


def _bars(plot: Plot, result: Result, parts: Sequence[str]) -> Bars:
    values = _scaled(plot.key, [result.figures[f"{part}.{plot.key}"] for part in parts])
    bars = [
        Bar(part, _shown(value), color_of(part, place), value)
        for place, (part, value) in enumerate(zip(parts, values, strict=True))
    ]
    return Bars([(plot.y_title, bars)])


def _names(plot: Plot, result: Result, parts: Sequence[str]) -> Bars:
    groups = []
    for place, part in enumerate(parts):
        found = sorted(result.names[f"{part}.{plot.key}"].items(), key=lambda item: -item[1])
        color = color_of(part, place)
        bars = [Bar(name, _shown(value), color, value) for name, value in found[:_MAX_NAMES]]
        groups.append((f"{part}: {plot.x_title}", bars))
    return Bars(groups)


def _shown(value: float) -> str:
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def _parts(plot: Plot, values: Iterable[str]) -> list[str]:
    """The parts that have something under the plot's key, in its order."""
    found = [name.removesuffix(f".{plot.key}") for name in values if name.endswith(f".{plot.key}")]
    return [part for part in plot.parts if part in found] if plot.parts else found


def _scaled(key: str, values: Sequence[float]) -> list[float]:
    return [value / BYTES_PER_MB for value in values] if key.endswith("_bytes") else list(values)
