"""The processes of one server, one record each. Pure bookkeeping, no process.

Invariant: a process has a record from its fork until it is reaped, as a worker or, once promoted,
as a mold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pasture.scoreboard.board import WorkerStatus

OUTDATED = -1
"""Generation of processes that were forked before a reload."""


@dataclass(slots=True, eq=False)
class Worker:
    """One process of the server."""

    pid: int  # 0 before the fork
    generation: int  # generation of the mold that forked it; of a mold, the one that it forks
    # spawned_at, ready_at, leaving_at: seconds of the monotonic clock; None before.
    spawned_at: float = 0.0
    # "worker" until the promotion, "mold" from then on; "first mold": the process that loaded the
    # application for generation 0, which the life cycle does not know.
    role: Literal["worker", "mold", "first mold"] = "worker"
    forks: bool = False  # this mold is sealed and workers are forked from it
    # It has reported the outcome of its load or its promotion, which it does once.
    has_answered: bool = False
    status: WorkerStatus = field(default_factory=WorkerStatus)
    ready_at: float | None = None
    leaving_at: float | None = None
    # channel, slot, handle: the server's own, never looked at here: its end of the channel, the
    # process's row on the scoreboard, and its own object for the process.
    channel: Any = None
    slot: Any = None
    handle: Any = None

    @property
    def active(self) -> bool:
        """Whether it serves, or will serve: it was not asked to leave."""
        return self.role == "worker" and self.leaving_at is None

    def leave(self, now: float) -> None:
        """Note that it is asked to leave, unless it was before."""
        if self.leaving_at is None:
            self.leaving_at = now


class Children:
    """All processes, oldest first.

    Attributes:
        by_pid: the records.
    """

    def __init__(self) -> None:
        self.by_pid: dict[int, Worker] = {}

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self.by_pid.values()))

    def __contains__(self, worker: object) -> bool:
        return isinstance(worker, Worker) and self.by_pid.get(worker.pid) is worker

    def update(self, statuses: Mapping[int, WorkerStatus], now: float) -> None:
        """Take over the status that workers report."""
        for pid, status in statuses.items():
            worker = self.by_pid.get(pid)
            if worker is not None:
                worker.status = status
                if status.ready and worker.ready_at is None:
                    worker.ready_at = now

    @property
    def serving(self) -> list[Worker]:
        """Workers, those that were asked to leave included."""
        return [w for w in self if w.role == "worker"]

    @property
    def workers(self) -> list[Worker]:
        """Active workers."""
        return [w for w in self if w.active]

    @property
    def molds(self) -> list[Worker]:
        """Promoted workers and the first mold."""
        return [w for w in self if w.role != "worker"]

    def mold_of(self, generation: int) -> Worker | None:
        """The mold that forks workers of a generation; None without one."""
        return next((w for w in self if w.forks and w.generation == generation), None)


def ready(workers: Iterable[Worker]) -> list[Worker]:
    """Workers that accept connections."""
    return [w for w in workers if w.status.ready]


def mean_requests(workers: Iterable[Worker]) -> float:
    """Requests answered by a worker on average; 0 without workers."""
    counts = [w.status.requests for w in workers]
    return sum(counts) / len(counts) if counts else 0.0
