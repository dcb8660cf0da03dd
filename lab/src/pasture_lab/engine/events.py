"""What the lab tells while it runs, for a display or a log. Figures, not words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Planned:
    """Before the start.

    Attributes:
        parts: of all experiments together; `kept` of them were finished before.
        seconds: estimate for the others.
    """

    parts: int
    kept: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PartStarted:
    """A part is begun; `number` of `total`, from 1."""

    experiment: str
    part: str
    number: int
    total: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PartMoved:
    """How much of the part under way is done, 0 to 1."""

    done: float


@dataclass(frozen=True, slots=True)
class PartFinished:
    """A part has ended.

    Attributes:
        kept: it was finished before, and not run again.
        gap: why it brought back nothing; "" if it did.
    """

    experiment: str
    part: str
    seconds: float
    kept: bool = False
    gap: str = ""


Event = Planned | PartStarted | PartMoved | PartFinished
