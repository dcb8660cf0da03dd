"""The processes of one server as its life cycle sees them. Pure bookkeeping, no process.

Invariant: a pid is here from its birth until it is reported as ended, as a worker or, once
promoted, as a mold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pasture.scoreboard.board import Facts

OUTDATED = -1
"""Generation of what was forked before a reload."""


@dataclass(slots=True)
class Member:
    """One process.

    Attributes:
        age: rises with each birth.
        born_at, ready_at, leaving_at: seconds of the monotonic clock; None: not yet.
    """

    pid: int
    generation: int
    age: int
    born_at: float
    role: Literal["worker", "mold"] = "worker"
    facts: Facts = field(default_factory=Facts)
    ready_at: float | None = None
    leaving_at: float | None = None

    @property
    def active(self) -> bool:
        """Serves, or will: nobody has told it to leave."""
        return self.role == "worker" and self.leaving_at is None


class Herd:
    """All processes by pid."""

    def __init__(self) -> None:
        self._members: dict[int, Member] = {}
        self._births = 0

    def add(self, pid: int, generation: int, now: float) -> None:
        self._births += 1
        self._members[pid] = Member(pid, generation, self._births, now)

    def remove(self, pid: int) -> Member | None:
        return self._members.pop(pid, None)

    def get(self, pid: int | None) -> Member | None:
        return None if pid is None else self._members.get(pid)

    def look(self, facts: Mapping[int, Facts], now: float) -> None:
        """Take over what the workers say of themselves."""
        for pid, said in facts.items():
            member = self._members.get(pid)
            if member is not None:
                member.facts = said
                if said.ready and member.ready_at is None:
                    member.ready_at = now

    def outdate(self) -> None:
        """From now on nobody counts as of a living generation."""
        for member in self._members.values():
            member.generation = OUTDATED

    @property
    def workers(self) -> list[Member]:
        """Active ones, oldest first."""
        return [m for m in self._members.values() if m.active]

    @property
    def leaving(self) -> list[Member]:
        """Workers and molds that were told to."""
        return [m for m in self._members.values() if m.leaving_at is not None]

    @property
    def molds(self) -> list[Member]:
        return [m for m in self._members.values() if m.role == "mold"]


def ready(members: Iterable[Member]) -> list[Member]:
    """Those that accept connections."""
    return [m for m in members if m.facts.ready]


def mean_requests(members: Iterable[Member]) -> float:
    """That a worker has answered on average; 0 without workers."""
    counts = [m.facts.requests for m in members]
    return sum(counts) / len(counts) if counts else 0.0
