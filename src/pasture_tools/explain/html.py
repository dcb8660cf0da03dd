"""`pasture explain --html`: one self-contained page."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from pasture_tools.display.pages import render_page
from pasture_tools.display.units import megabytes, percent, seconds
from pasture_tools.explain.advice import advice
from pasture_tools.explain.causes import Cause
from pasture_tools.explain.explanation import Explanation
from pasture_tools.explain.table import headline, megabytes2
from pasture_tools.explain.tally import Share

_MAX_ROWS = 60

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
        writers=[
            (
                one.function,
                f"{one.faults:,}",
                f"{one.cause.label}: {one.label}",
                color_of(one.cause),
            )
            for one in (found.recording.writers[:_MAX_ROWS] if found.recording else ())
        ],
        made_at=made_at.strftime("%Y-%m-%d %H:%M"),
    )


def color_of(cause: Cause) -> str:
    """The color of a cause, the same in every table."""
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
        "width": 100 * share.bytes / max(1.0, *(of.bytes for _, of in found.causes)),
        "figures": _figures(share),
    }
