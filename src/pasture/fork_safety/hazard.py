"""One thing that does not survive a fork: its kind for programs, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Which sort of thing breaks in children. Stable: reports carry it."""

    CONNECTION = "connection"
    TRANSACTION = "transaction"
    DATABASE = "database-file"
    THREAD = "thread"
    NATIVE_THREAD = "native-thread"
    TASK = "task"
    LOOP_OWNED = "loop-owned"
    LIBRARY = "library"


@dataclass(frozen=True, slots=True)
class Hazard:
    """One thing that breaks in forked children.

    Attributes:
        what: the thing, as the subject of a sentence.
        hint: what to do about it.
        kind: which sort of thing it is.
    """

    what: str
    hint: str
    kind: Kind = Kind.LIBRARY

    def __str__(self) -> str:
        return f"{self.what} does not survive a fork: {self.hint}"
