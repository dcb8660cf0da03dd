"""`pasture explain --html`: one self-contained page with a map of the private memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from pasture.trust.untrusted_text import printable
from pasture_tools.display.pages import plot_markup, render_page
from pasture_tools.display.units import megabytes, percent, seconds
from pasture_tools.explain.advice import advice
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.explanation import Explanation
from pasture_tools.explain.table import headline, megabytes2
from pasture_tools.explain.tally import Share

_MAX_ROWS = 60
_MAX_LEAVES = 400
_MAP_PX = 520

# One hue for each kind of remedy: reading, allocating, running, filling, and the rest.
_COLORS = {
    "#c8553d": (Cause.REFERENCE_COUNT, Cause.GC_HEADER),
    "#d9a441": (Cause.HOLE, Cause.POOL_HEADER, Cause.FREE_LIST, Cause.CHUNK_HEADER, Cause.FREED),
    "#6a5fb0": (Cause.CODE_COUNTER, Cause.CODE_CACHE),
    "#3f7fb5": (
        *(Cause.DICT_KEYS, Cause.DICT_VALUES, Cause.LIST_STORAGE, Cause.SET_STORAGE),
        *(Cause.OBJECT_FIELD, Cause.TYPE_VERSION, Cause.WEAKREF_LIST, Cause.HASH),
    ),
    "#2f8f5b": (Cause.NEW_MEMORY, Cause.FREE_MEMORY),
}
_OTHER_COLOR = "#8a9099"


def render_html(found: Explanation, made_at: datetime) -> str:
    """The page as text; values from the process are escaped."""
    return render_page(
        Path(__file__).with_name("explain.html.j2"),
        found=found,
        headline=headline(found),
        lead=f"{found.subject.capitalize()} against {found.origin}: "
        f"{found.os_pages:,} private pages, {megabytes(found.explained_bytes)} explained in "
        f"{seconds(found.seconds)}.",
        advice=advice(found),
        causes=[_cause_row(found, cause, share) for cause, share in found.causes],
        fields=[
            (str(label), cause.label, color_of(cause), *_figures(share))
            for cause, label, share in found.fields[:_MAX_ROWS]
        ],
        memory_map=plot_markup(_memory_map(found), _MAP_PX),
        writer_map=plot_markup(_writer_map(found), _MAP_PX) if found.recording else "",
        made_at=made_at.strftime("%Y-%m-%d %H:%M"),
    )


def color_of(cause: Cause) -> str:
    """The color of a cause, the same in every plot and table."""
    return next((color for color, causes in _COLORS.items() if cause in causes), _OTHER_COLOR)


def _figures(share: Share) -> tuple[str, ...]:
    pages, only = f"{share.os_pages:,}", f"{share.only_os_pages:,}"
    return megabytes2(share.bytes), pages, only, f"{share.words:,}"


def _cause_row(found: Explanation, cause: Cause, share: Share) -> dict[str, Any]:
    return {
        "name": cause.label,
        "meaning": cause.meaning,
        "color": color_of(cause),
        "share": percent(share.bytes / max(1.0, found.explained_bytes)),
        "figures": _figures(share),
    }


def _treemap(leaves: Sequence[tuple[tuple[str, ...], float, str]], unit: str, whole: str) -> Any:
    """A map of nested names; `leaves` are the names from the outside in, size and color."""
    import plotly.graph_objects as go

    sizes: Counter[tuple[str, ...]] = Counter()
    colors: dict[tuple[str, ...], str] = {}
    for names, size, color in leaves:
        for depth in range(len(names) + 1):
            sizes[names[:depth]] += size  # type: ignore[assignment]
            colors.setdefault(names[:depth], color)
    colors[()] = "#eceef1"
    places = list(sizes)
    ids = {place: str(number) for number, place in enumerate(places)}
    figure = go.Figure(
        go.Treemap(
            ids=list(ids.values()),
            # Names in which plotly sees none of the tags that it knows: links, styles.
            labels=[
                escape(printable(place[-1]), quote=False) if place else whole for place in places
            ],
            parents=[ids[place[:-1]] if place else "" for place in places],
            values=[sizes[place] for place in places],
            marker={"colors": [colors[place] for place in places]},
            branchvalues="total",
            texttemplate="%{label}<br>%{value:,.2f} " + unit,
            hovertemplate="%{label}<br>%{value:,.2f} " + unit + "<extra></extra>",
            maxdepth=3,
        )
    )
    figure.update_layout(margin={"t": 6, "l": 0, "r": 0, "b": 0}, font={"size": 13})
    return figure


def _memory_map(found: Explanation) -> Any:
    """By cause, then type, then field."""
    leaves = []
    for cause, label, share in found.fields[:_MAX_LEAVES]:
        names = (cause.label, label.type, label.field or label.type)
        leaves.append((names, share.bytes / 1e6, color_of(cause)))
    return _treemap(leaves, "MB", "private memory")


def _writer_map(found: Explanation) -> Any:
    """By writing function, then what it wrote first."""
    leaves = []
    for writer in found.recording.writers[:_MAX_LEAVES] if found.recording else ():
        names = (writer.function, f"{writer.cause.label}: {writer.label}")
        leaves.append((names, float(writer.faults), color_of(writer.cause)))
    return _treemap(leaves, "faults", "page faults")
