"""Actions that a life cycle asks its server for. Data only: the server reports their outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Spawn:
    """Fork a worker from the mold of a generation; 0 is the server's own process."""

    generation: int


@dataclass(frozen=True, slots=True)
class Promote:
    """Ask a worker to finish its requests and to become the mold of a generation."""

    pid: int
    generation: int


@dataclass(frozen=True, slots=True)
class Retire:
    """Ask a worker to finish its requests and to end."""

    pid: int


@dataclass(frozen=True, slots=True)
class Dismiss:
    """Ask a mold to end."""

    pid: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End a process that does not do what it was asked to."""

    pid: int


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure the memory of the whole server and report it with `measured`."""


@dataclass(frozen=True, slots=True)
class Note:
    """Write to the log."""

    level: Literal["info", "warning"]
    text: str


Action = Spawn | Promote | Retire | Dismiss | Kill | Measure | Note
