"""From figures to verdicts: of each row, and of an experiment as a whole. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pasture_lab.engine.experiment import Row
from pasture_lab.engine.figures import Figures
from pasture_lab.engine.rule import Verdict

SHOWN = re.compile(r"\{([^{}]+)\}")
"""A figure's name in what a row shows."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A row with what came of it.

    Attributes:
        ratio: that was measured; None without one.
        verdict: None for a row of ours.
        reason: why it is not measurable here; "" if it is.
    """

    row: Row
    ratio: float | None
    verdict: Verdict | None
    reason: str = ""


def judge_rows(
    rows: Sequence[Row], figures: Figures, gaps: Mapping[str, str]
) -> tuple[Judged, ...]:
    """Judge each row.

    Args:
        gaps: by part, why it brought back nothing.
    """
    return tuple(_judge(row, figures, gaps) for row in rows)


def judge_experiment(rows: Sequence[Judged]) -> Verdict:
    """Reproduced if each row that decides and could be measured was, and there is one."""
    deciding = [judged.verdict for judged in rows if judged.row.decides and judged.verdict]
    measured = [verdict for verdict in deciding if verdict is not Verdict.NOT_MEASURABLE]
    if not measured:
        return Verdict.NOT_MEASURABLE
    if Verdict.NOT_REPRODUCED in measured:
        return Verdict.NOT_REPRODUCED
    return Verdict.REPRODUCED


def _judge(row: Row, figures: Figures, gaps: Mapping[str, str]) -> Judged:
    if row.never:
        return Judged(row, None, Verdict.NOT_MEASURABLE, row.never)
    if row.rule is None:
        return Judged(row, None, None)
    ratio = row.rule.ratio(figures)
    if ratio is None:
        missing = [name for name in row.rule.needs if not figures.get(name)]
        return Judged(row, None, Verdict.NOT_MEASURABLE, _why(missing, row, gaps))
    return Judged(row, ratio, row.rule.judge(ratio))


def _why(missing: Sequence[str], row: Row, gaps: Mapping[str, str]) -> str:
    # A figure that several parts make together has no part of its own, but it is shown with
    # those that it is made of.
    for name in (*missing, *SHOWN.findall(row.shows)):
        part = name.rpartition(".")[0]
        if part in gaps:
            return gaps[part]
    said = row.without or next(iter(gaps.values()), "")
    return said or f"{', '.join(missing)}: not measured, or 0"
