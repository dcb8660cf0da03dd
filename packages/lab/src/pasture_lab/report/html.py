"""`pasture lab --html`: one self-contained page, an experiment a section."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from pasture_lab.engine.rule import Verdict
from pasture_lab.engine.runner import LabResult, Result
from pasture_lab.report import words
from pasture_tools.display.pages import plot_markup, render_page
from pasture_tools.display.units import seconds

_PLOT_PX = 320
_CLASSES = {
    Verdict.REPRODUCED: "yes",
    Verdict.NOT_REPRODUCED: "no",
    Verdict.NOT_MEASURABLE: "open",
}


def render_html(lab: LabResult, made_at: datetime) -> str:
    """The page as text."""
    return render_page(
        Path(__file__).with_name("lab.html.j2"),
        headline=words.headline(lab),
        quick=lab.options.quick,
        machine=lab.machine,
        results=[_section(result) for result in lab.results],
        made_at=made_at.strftime("%Y-%m-%d %H:%M"),
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
            name = f"{result.experiment.name}-plot-{number}"
            markup = plot_markup(figure, _PLOT_PX, div_id=name)
            found.append({"plot": plot, "markup": markup})
    return found
