"""What a trial tells while it runs, for a progress display or a log.

Events carry figures, not words for the screen; who shows them decides how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pasture.trial.measurement import Run


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A server is being started; `number` of `total` runs, from 1."""

    policy: str
    number: int
    total: int
    requests: int


@dataclass(frozen=True, slots=True)
class Booted:
    """The application answered for the first time."""

    policy: str
    seconds: float
    port: int


@dataclass(frozen=True, slots=True)
class LoadMoved:
    """More requests were answered; private memory of the workers as last sampled."""

    policy: str
    requests: int
    private_bytes_median: int


@dataclass(frozen=True, slots=True)
class Stopping:
    """The load has ended, the server got SIGTERM."""

    policy: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """All processes of a run have ended."""

    run: Run


@dataclass(frozen=True, slots=True)
class Confirming:
    """Answers differ: the first policy runs again, to see whether they differ by themselves."""

    policy: str
    urls: int


Event = RunStarted | Booted | LoadMoved | Stopping | RunFinished | Confirming
