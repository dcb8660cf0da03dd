"""The rule that decides whether a published figure was reproduced. Pure.

A rule is about a ratio, never about an absolute figure: machines differ, mechanisms do not.
It stands in the experiment's table, so it was written before the run that it judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pasture_lab.engine.figures import Figures


class Verdict(StrEnum):
    """The outcome of a published figure, or of an experiment."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    NOT_MEASURABLE = "not measurable here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A ratio of two figures, and where it must lie.

    Attributes:
        says: what is divided by what, in words.
        of: name of the figure that is divided.
        to: name of the one it is divided by; "" where `of` is a ratio already.
        least, most: bounds, both included; None for none.
        published: the ratio of the published figures; None where they give none.
    """

    says: str
    of: str
    to: str = ""
    least: float | None = None
    most: float | None = None
    published: float | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the figures that it is about."""
        return (self.of, self.to) if self.to else (self.of,)

    def ratio(self, figures: Figures) -> float | None:
        """The measured ratio; None where a figure is missing, or the divisor is 0."""
        if any(name not in figures for name in self.needs):
            return None
        if not self.to:
            return figures[self.of]
        return figures[self.of] / figures[self.to] if figures[self.to] else None

    def judge(self, ratio: float) -> Verdict:
        """Whether a ratio is where the rule wants it."""
        low = self.least is None or ratio >= self.least
        high = self.most is None or ratio <= self.most
        return Verdict.REPRODUCED if low and high else Verdict.NOT_REPRODUCED

    def __str__(self) -> str:
        if self.least is not None and self.most is not None:
            where = f"between {self.least:g} and {self.most:g}"
        elif self.least is not None:
            where = f"at least {self.least:g}"
        else:
            where = f"at most {self.most:g}"
        published = "" if self.published is None else f" (published {self.published:.3g})"
        return f"{self.says}: {where}{published}"
