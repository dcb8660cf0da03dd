"""What a life cycle asks its server to do. Data only; the server reports what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Spawn:
    """Fork a worker from the mold of a generation; 0 is the server's own process."""

    generation: int


@dataclass(frozen=True, slots=True)
class Promote:
    """Tell a worker to finish what it has and to become the mold of a generation."""

    pid: int
    generation: int


@dataclass(frozen=True, slots=True)
class Retire:
    """Tell a worker to finish what it has and to end."""

    pid: int


@dataclass(frozen=True, slots=True)
class Dismiss:
    """Tell a mold to end."""

    pid: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End a process that does not do as it is told."""

    pid: int


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure what the whole server takes and report it with `measured`."""


@dataclass(frozen=True, slots=True)
class Note:
    """Write to the log."""

    level: Literal["info", "warning"]
    text: str


Action = Spawn | Promote | Retire | Dismiss | Kill | Measure | Note
