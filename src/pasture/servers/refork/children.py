"""The processes of one server as its life cycle sees them. Pure bookkeeping, no process.

Invariant: a pid is here from its birth until it is reported as ended, as a worker or, once
promoted, as a mold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pasture.scoreboard.board import WorkerStatus

OUTDATED = -1
"""Generation of what was forked before a reload."""


@dataclass(slots=True)
class Worker:
    """One process.

    Attributes:
        age: rises with each birth.
        spawned_at, ready_at, leaving_at: seconds of the monotonic clock; None: not yet.
    """

    pid: int
    generation: int
    age: int
    spawned_at: float
    role: Literal["worker", "mold"] = "worker"
    status: WorkerStatus = field(default_factory=WorkerStatus)
    ready_at: float | None = None
    leaving_at: float | None = None

    @property
    def active(self) -> bool:
        """Serves, or will: nobody has told it to leave."""
        return self.role == "worker" and self.leaving_at is None


class Children:
    """All processes by pid."""

    def __init__(self) -> None:
        self._processes: dict[int, Worker] = {}
        self._spawned = 0

    def add(self, pid: int, generation: int, now: float) -> None:
        self._spawned += 1
        self._processes[pid] = Worker(pid, generation, self._spawned, now)

    def remove(self, pid: int) -> Worker | None:
        return self._processes.pop(pid, None)

    def get(self, pid: int | None) -> Worker | None:
        return None if pid is None else self._processes.get(pid)

    def update(self, status: Mapping[int, WorkerStatus], now: float) -> None:
        """Take over what the workers say of themselves."""
        for pid, said in status.items():
            worker = self._processes.get(pid)
            if worker is not None:
                worker.status = said
                if said.ready and worker.ready_at is None:
                    worker.ready_at = now

    def outdate(self) -> None:
        """From now on nobody counts as of a living generation."""
        for worker in self._processes.values():
            worker.generation = OUTDATED

    @property
    def workers(self) -> list[Worker]:
        """Active ones, oldest first."""
        return [w for w in self._processes.values() if w.active]

    @property
    def leaving(self) -> list[Worker]:
        """Workers and molds that were told to."""
        return [w for w in self._processes.values() if w.leaving_at is not None]

    @property
    def molds(self) -> list[Worker]:
        return [w for w in self._processes.values() if w.role == "mold"]


def ready(workers: Iterable[Worker]) -> list[Worker]:
    """Those that accept connections."""
    return [w for w in workers if w.status.ready]


def mean_requests(workers: Iterable[Worker]) -> float:
    """That a worker has answered on average; 0 without workers."""
    counts = [w.status.requests for w in workers]
    return sum(counts) / len(counts) if counts else 0.0
