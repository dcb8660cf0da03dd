"""The plots of the HTML page, as figures of plotly.

Owns colours and layout of a plot. Imports plotly at the top, so it is itself imported only
where the extra `trial` is known to be there.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import plotly.graph_objects as go

from pasture.proc.smaps import Memory
from pasture_tools.display.units import BYTES_PER_MB
from pasture_tools.trial.figures import (
    LATENCIES,
    PEAK,
    PEAK_PSS,
    PSS_BEFORE,
    REQUESTS,
    SHUTDOWN,
    TOTAL,
)
from pasture_tools.trial.measurement import TrialResult

# The same in every plot; distinguishable with any colour vision.
COLORS = {
    "plain": "#5b6473",
    "stock": "#8b8f98",
    "freeze": "#4c7fb8",
    "warm-freeze": "#7b6bb0",
    "seal": "#2f8f5b",
}
"""One colour a policy."""
_OTHER_COLORS = ("#3b9aa5", "#a07d2c", "#94518f")
_INK, _FAINT, _GRID = "#23262b", "#6b7079", "#e7e8ea"
_FONT = 'Inter, "Segoe UI", system-ui, -apple-system, sans-serif'

MemoryFigure = Callable[[Memory], int]


def color_of(policy: str, result: TrialResult) -> str:
    """The colour of a policy; one that is not known gets one by its place in the plan."""
    place = result.plan.policies.index(policy)
    return COLORS.get(policy, _OTHER_COLORS[place % len(_OTHER_COLORS)])


def private_over_requests(result: TrialResult) -> go.Figure:
    """Private memory of the median worker against requests."""
    return _over_requests(result, lambda memory: memory.private_bytes)


def shared_over_requests(result: TrialResult) -> go.Figure:
    """Shared memory of the median worker against requests."""
    return _over_requests(result, lambda memory: memory.shared_bytes)


def total_pss(result: TrialResult) -> go.Figure:
    """Total PSS, split into the workers' private memory and all that is there once."""
    names = [p.policy for p in result.policies]
    totals = [p.median(TOTAL) for p in result.policies]
    private = [
        sum(w.memory.private_bytes for w in p.typical.final.workers) for p in result.policies
    ]
    once = [max(0.0, total - own) for total, own in zip(totals, private, strict=True)]
    colors = [color_of(name, result) for name in names]
    figure = go.Figure(
        [
            _bars(names, [_mb(v) for v in once], "parent and shared", colors, opacity=0.45),
            _bars(names, [_mb(v) for v in private], "private of the workers", colors),
        ]
    )
    _label_tops(figure, names, [_mb(v) for v in totals], "{:,.0f}")
    return laid_out(figure, "MB", barmode="stack", showlegend=False)


def latency(result: TrialResult) -> go.Figure:
    """p50, p95 and p99 of the answers."""
    figure = go.Figure()
    for policy in result.policies:
        figure.add_bar(
            x=list(LATENCIES),
            y=[policy.median(one) for one in LATENCIES.values()],
            name=policy.policy,
            marker_color=color_of(policy.policy, result),
            text=[one.shown(policy) for one in LATENCIES.values()],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{x}: %{y:.1f} ms<extra>" + policy.policy + "</extra>",
        )
    return laid_out(figure, "ms", barmode="group")


def throughput(result: TrialResult) -> go.Figure:
    """Requests a second."""
    names = [p.policy for p in result.policies]
    values = [p.median(REQUESTS) for p in result.policies]
    colors = [color_of(name, result) for name in names]
    figure = go.Figure([_bars(names, values, "requests/s", colors)])
    _label_tops(figure, names, values, "{:,.0f}")
    return laid_out(figure, "requests/s")


def shutdown(result: TrialResult) -> go.Figure:
    """Total PSS before and at the worst moment of the shutdown."""
    names = [p.policy for p in result.policies]
    before = [_mb(p.median(PSS_BEFORE)) for p in result.policies]
    peak = [_mb(p.median(PEAK_PSS)) for p in result.policies]
    colors = [color_of(name, result) for name in names]
    figure = go.Figure(
        [
            _bars(names, before, "before", colors, opacity=0.45),
            _bars(names, peak, "peak", colors),
        ]
    )
    figure.data[1].update(text=[PEAK.shown(p) for p in result.policies], textposition="outside")
    seconds = (f"<span style='color:{_FAINT}'>{SHUTDOWN.shown(p)}</span>" for p in result.policies)
    ticks = [f"{name}<br>{text}" for name, text in zip(names, seconds, strict=True)]
    figure.update_xaxes(tickvals=names, ticktext=ticks)
    return laid_out(figure, "MB", barmode="group", showlegend=False)


def _over_requests(result: TrialResult, memory_figure: MemoryFigure) -> go.Figure:
    """A line a policy, with a band from the least to the greatest worker."""
    figure = go.Figure()
    for policy in result.policies:
        color = color_of(policy.policy, result)
        samples = [s for s in policy.typical.series if s.workers]
        x = [s.requests for s in samples]
        values = [[_mb(memory_figure(worker.memory)) for worker in s.workers] for s in samples]
        _add_band(figure, x, [min(v) for v in values], [max(v) for v in values], color)
        figure.add_scatter(
            x=x,
            y=[statistics.median(v) for v in values],
            name=policy.policy,
            mode="lines",
            line={"color": color, "width": 2.5},
            hovertemplate="%{y:.1f} MB<extra>" + policy.policy + "</extra>",
        )
    figure.update_layout(hovermode="x unified")
    figure.update_xaxes(title_text="requests served", rangemode="tozero")
    return laid_out(figure, "MB a worker")


def _add_band(
    figure: go.Figure, x: list[int], low: list[float], high: list[float], color: str
) -> None:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    figure.add_scatter(
        x=x + x[::-1],
        y=high + low[::-1],
        mode="lines",
        fill="toself",
        fillcolor=f"rgba({red},{green},{blue},0.14)",
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
    )


def _bars(
    names: list[str], values: list[float], label: str, colors: list[str], opacity: float = 1.0
) -> go.Bar:
    return go.Bar(
        x=names,
        y=values,
        name=label,
        marker={"color": colors, "opacity": opacity},
        hovertemplate="%{y:,.1f}<extra>" + label + "</extra>",
    )


def _label_tops(figure: go.Figure, names: list[str], values: list[float], form: str) -> None:
    for name, value in zip(names, values, strict=True):
        figure.add_annotation(x=name, y=value, text=form.format(value), showarrow=False, yshift=11)


def laid_out(figure: go.Figure, unit: str, **layout: str | bool) -> go.Figure:
    """The look of every plot, with `unit` along the y axis."""
    figure.update_layout(
        template="none",
        font={"family": _FONT, "size": 13, "color": _INK},
        margin={"l": 56, "r": 16, "t": 34, "b": 52},
        height=320,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        bargap=0.38,
        **layout,
    )
    figure.update_xaxes(showgrid=False, linecolor=_GRID, tickcolor=_GRID)
    figure.update_yaxes(
        title_text=unit, gridcolor=_GRID, zeroline=False, rangemode="tozero", ticksuffix=" "
    )
    return figure


def _mb(size_bytes: float) -> float:
    return size_bytes / BYTES_PER_MB
