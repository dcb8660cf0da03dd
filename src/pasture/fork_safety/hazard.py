"""One thing that does not survive a fork: its code for programs, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass

from pasture.reasons import Reason


@dataclass(frozen=True, slots=True)
class Hazard:
    """One thing that breaks in forked children.

    Attributes:
        what: the thing, as the subject of a sentence.
        hint: what to do about it.
        kind: which sort of thing it is.
        owner: the package whose thread it is; "" where that is not known.
    """

    what: str
    hint: str
    kind: Reason = Reason.LIBRARY
    owner: str = ""

    def __str__(self) -> str:
        return f"{self.what} does not survive a fork: {self.hint}"
