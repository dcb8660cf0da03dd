"""`pasture lab --html`: one self-contained page, an experiment a section."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from pasture_lab.engine.rule import Verdict
from pasture_lab.engine.runner import LabResult, Result
from pasture_lab.report import plots, words
from pasture_tools.display.pages import render_page
from pasture_tools.display.units import seconds

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
        "plots": [
            (plot, drawn)
            for plot in result.experiment.plots
            if (drawn := plots.drawn(plot, result)) is not None
        ],
        "gaps": [
            f"{', '.join(parts)}: {reason}"
            for reason, parts in words.by_reason(result.gaps).items()
        ],
        "notes": result.notes,
    }
