"""The plots of a lab's page, as figures of plotly.

Imports plotly at the top, so it is itself imported only where that is known to be there.
Owns what is drawn; the look is that of the plots of a trial.
"""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from pasture_lab.engine.experiment import Plot
from pasture_lab.engine.runner import Result
from pasture_tools.display.units import BYTES_PER_MB
from pasture_tools.trial import plots
from pasture_tools.trial.plots import laid_out

COLORS = {**plots.COLORS, "side-table": "#b5596a"}
_MORE_COLORS = ("#c8553d", "#3b9aa5", "#a07d2c", "#94518f", "#557a2f", "#4466aa", "#777777")
_MAX_NAMES = 8
_DOTTED = ("limit-", "perf-")


def drawn(plot: Plot, result: Result) -> go.Figure | None:
    """A plot as a figure; None where nothing of it was measured."""
    make = {"lines": _lines, "bars": _bars, "names": _names}[plot.kind]
    return make(plot, result)


def color_of(part: str, place: int) -> str:
    """The colour of a part: a policy's own, if it is named for one, alone or behind a prefix."""
    policy = part if part in COLORS else part.partition("-")[2]
    return COLORS.get(policy, _MORE_COLORS[place % len(_MORE_COLORS)])


def dash_of(part: str) -> str:
    """Dotted where a prefix sets a part apart from the policy's own line."""
    return "dot" if part.startswith(_DOTTED) else "solid"


def _lines(plot: Plot, result: Result) -> go.Figure | None:
    figure = go.Figure()
    for place, part in enumerate(_parts(plot, result.curves)):
        curve = result.curves[f"{part}.{plot.key}"]
        figure.add_scatter(
            x=list(curve.x),
            y=_scaled(plot.key, curve.y),
            name=part,
            mode="lines+markers",
            line={"color": color_of(part, place), "width": 2.5, "dash": dash_of(part)},
            marker={"size": 4},
        )
    if not figure.data:
        return None
    figure.update_layout(hovermode="x unified")
    figure.update_xaxes(title_text=plot.x_title, rangemode="tozero")
    return laid_out(figure, plot.y_title)


def _bars(plot: Plot, result: Result) -> go.Figure | None:
    parts = _parts(plot, result.figures)
    values = _scaled(plot.key, [result.figures[f"{part}.{plot.key}"] for part in parts])
    if not parts:
        return None
    bar = go.Bar(
        x=parts,
        y=values,
        name=plot.y_title,
        marker={"color": [color_of(part, place) for place, part in enumerate(parts)]},
        text=[f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in values],
        textposition="outside",
        cliponaxis=False,
    )
    return laid_out(go.Figure([bar]), plot.y_title, showlegend=False)


def _names(plot: Plot, result: Result) -> go.Figure | None:
    figure = go.Figure()
    for place, part in enumerate(_parts(plot, result.names)):
        largest = sorted(result.names[f"{part}.{plot.key}"].items(), key=lambda item: item[1])
        shown = largest[-_MAX_NAMES:]
        figure.add_bar(
            x=[value for _, value in shown],
            y=[name for name, _ in shown],
            name=part,
            orientation="h",
            marker_color=color_of(part, place),
        )
    if not figure.data:
        return None
    laid_out(figure, "", barmode="group")
    figure.update_xaxes(title_text=plot.x_title, rangemode="tozero")
    figure.update_yaxes(dtick=1, showgrid=False)
    figure.update_layout(margin={"l": 240}, showlegend=False)
    return figure


def _parts(plot: Plot, values: object) -> list[str]:
    """The parts that have something under the plot's key, in its order."""
    assert isinstance(values, dict)
    found = [name.removesuffix(f".{plot.key}") for name in values if name.endswith(f".{plot.key}")]
    return [part for part in plot.parts if part in found] if plot.parts else found


def _scaled(key: str, values: Sequence[float]) -> list[float]:
    return [value / BYTES_PER_MB for value in values] if key.endswith("_bytes") else list(values)
