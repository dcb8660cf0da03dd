"""`pasture lab --html`: one self-contained page, an experiment a section.

Works without a network. jinja2 and plotly are imported when a page is made.
"""

from __future__ import annotations

from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pasture.display.pages import render_page
from pasture.display.units import seconds
from pasture.errors import MissingExtra
from pasture_lab.engine.rule import Verdict
from pasture_lab.engine.runner import LabResult, Result
from pasture_lab.report import words

_CLASSES = {
    Verdict.REPRODUCED: "yes",
    Verdict.NOT_REPRODUCED: "no",
    Verdict.NOT_MEASURABLE: "open",
}


def can_draw() -> bool:
    """Whether a page could be made."""
    return all(map(find_spec, ("jinja2", "plotly")))


def require_html() -> None:
    """Check that a page could be made.

    Raises:
        MissingExtra: jinja2 or plotly is not installed.
    """
    if not can_draw():
        raise MissingExtra(
            "--html needs jinja2 and plotly, which are not installed",
            hint="pip install 'pasture[lab]'",
        )


def render_html(lab: LabResult, made_at: datetime) -> str:
    """The page as text."""
    from plotly.offline import get_plotlyjs

    return render_page(
        Path(__file__).with_name("lab.html.j2"),
        headline=words.headline(lab),
        quick=lab.options.quick,
        machine=lab.machine,
        results=[_section(result) for result in lab.results],
        made_at=made_at.strftime("%Y-%m-%d %H:%M"),
        plotly_js=get_plotlyjs(),
    )


def _section(result: Result) -> dict[str, Any]:
    return {
        "experiment": result.experiment,
        "verdict": str(result.verdict),
        "class": _CLASSES[result.verdict],
        "counts": words.rows_line(result),
        "seconds": seconds(result.seconds),
        "rows": [
            {
                "row": judged.row,
                "measured": words.measured(judged, result.figures) or judged.reason,
                "reason": judged.reason if words.measured(judged, result.figures) else "",
                "ratio": words.ratio(judged),
                "verdict": str(judged.verdict or ""),
                "class": _CLASSES[judged.verdict] if judged.verdict else "ours",
            }
            for judged in result.rows
        ],
        "plots": _plots(result),
        "gaps": [
            f"{', '.join(parts)}: {reason}"
            for reason, parts in words.by_reason(result.gaps).items()
        ],
        "notes": result.notes,
    }


def _plots(result: Result) -> list[dict[str, Any]]:
    from pasture_lab.report import plots

    found = []
    for number, plot in enumerate(result.experiment.plots):
        figure = plots.drawn(plot, result)
        if figure is not None:
            markup = figure.to_html(
                full_html=False,
                include_plotlyjs=False,
                config={"displayModeBar": False, "responsive": True},
                default_height="320px",
                div_id=f"{result.experiment.name}-plot-{number}",
            )
            found.append({"plot": plot, "markup": markup})
    return found
