"""The words of a lab's rows: figures put into sentences, with their units.

Used by table, document and page alike, so that all three say the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from pasture_lab.engine.figures import Figures
from pasture_lab.engine.rule import Verdict
from pasture_lab.engine.runner import LabResult, Result
from pasture_lab.engine.verdict import SHOWN, Judged
from pasture_tools.display.units import megabytes, percent, seconds

_MIN_MB = 100_000
MISSING = "not measured"


def figure(name: str, value: float) -> str:
    """A figure with the unit that its name carries."""
    if name.endswith("_bytes"):
        return megabytes(value) if abs(value) >= _MIN_MB else f"{value / 1000:.1f} kB"
    if name.endswith("_s"):
        return seconds(value)
    if name.endswith("_share"):
        return percent(value)
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.1f}"


def measured(judged: Judged, figures: Figures) -> str:
    """The measured figures of a row; `MISSING` for missing ones."""
    names = SHOWN.findall(judged.row.shows)
    if not any(name in figures for name in names):
        return judged.row.shows if not names else ""
    return SHOWN.sub(lambda found: _one(found[1], figures), judged.row.shows)


def ratio(judged: Judged) -> str:
    """The measured ratio, "" without one."""
    return "" if judged.ratio is None else f"{judged.ratio:.3g}"


def headline(lab: LabResult) -> str:
    """How many experiments came out how."""
    counts = {verdict: 0 for verdict in Verdict}
    for result in lab.results:
        counts[result.verdict] += 1
    said = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    return ", ".join(said)


def rows_line(result: Result) -> str:
    """How many published figures of an experiment came out how."""
    counts: dict[Verdict, int] = {}
    for judged in result.rows:
        if judged.verdict is not None:
            counts[judged.verdict] = counts.get(judged.verdict, 0) + 1
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def by_reason(gaps: Mapping[str, str]) -> dict[str, list[str]]:
    """Parts that brought nothing back, by the reason."""
    found: dict[str, list[str]] = {}
    for part, reason in gaps.items():
        found.setdefault(reason, []).append(part)
    return found


def _one(name: str, figures: Figures) -> str:
    return figure(name, figures[name]) if name in figures else MISSING
