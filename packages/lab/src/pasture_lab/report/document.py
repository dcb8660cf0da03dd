"""The JSON document of a lab, schema 1. Stable: keys are added, never renamed.

Sizes are bytes, times seconds. `rows` has what the table has; `figures` and `curves` all that
was measured, by part.
"""

from __future__ import annotations

from typing import Any

from pasture.trust import untrusted_text
from pasture_lab.engine.runner import LabResult, Result
from pasture_lab.engine.verdict import Judged
from pasture_lab.report import words

SCHEMA = 1


def to_json(lab: LabResult) -> str:
    """The document as text, one trailing newline."""
    return untrusted_text.to_json(as_document(lab))


def as_document(lab: LabResult) -> dict[str, Any]:
    """The document as plain values that JSON knows."""
    return {
        "schema": SCHEMA,
        "machine": dict(lab.machine),
        "quick": lab.options.quick,
        "pythons": dict(lab.options.pythons),
        "experiments": {r.experiment.name: _experiment(r) for r in lab.results},
    }


def _experiment(result: Result) -> dict[str, Any]:
    experiment = result.experiment
    return {
        "title": experiment.title,
        "source": experiment.source,
        "setting": experiment.setting,
        "differences": list(experiment.differences),
        "verdict": str(result.verdict),
        "rows": [_row(judged, result) for judged in result.rows],
        "figures": dict(result.figures),
        "curves": {
            name: {"x": list(curve.x), "y": list(curve.y)} for name, curve in result.curves.items()
        },
        "names": {name: dict(values) for name, values in result.names.items()},
        "not_measured": dict(result.gaps),
        "notes": list(result.notes),
        "seconds": round(result.seconds, 2),
    }


def _row(judged: Judged, result: Result) -> dict[str, Any]:
    row = judged.row
    return {
        "what": row.what,
        "published": row.published or None,
        "measured": words.measured(judged, result.figures) or None,
        "ratio": judged.ratio,
        "published_ratio": row.rule.published if row.rule else None,
        "rule": str(row.rule) if row.rule else None,
        "decides": row.decides and judged.verdict is not None,
        "verdict": str(judged.verdict) if judged.verdict else None,
        "reason": judged.reason or None,
    }
