"""One rollout, from a generation to the next: its phases, and the actions that it asks for. Pure.

    measuring -> backfilling -> promoting -> canary -> rolling

- measuring: a worker is chosen, and the memory of the whole server is measured.
- backfilling: a spare worker is forked to replace the chosen one.
- promoting: the chosen worker finishes its requests, seals itself, and stops serving.
- canary: the new mold has forked one worker, which must answer.
- rolling: workers are replaced, each only after its replacement is ready.

Invariant: of `wanted` workers a rollout takes away at most a tenth, rounded down, at any time.
A rollout returns an `Outcome`; the life cycle draws the conclusions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pasture.refork.children import Children, Worker, ready
from pasture.refork.schedule import Payoff

Phase = Literal["idle", "measuring", "backfilling", "promoting", "canary", "rolling"]


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
    """Kill a process that does not obey."""

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


@dataclass(frozen=True, slots=True)
class Limits:
    """Timeouts in seconds, and the evidence that is enough."""

    boot_s: float = 30.0  # time from a worker's fork until it is ready
    # Time from a promotion until the mold is sealed, its last requests included.
    mold_s: float = 60.0
    proof_s: float = 2.0  # time for which a ready worker has to live if no request reaches it
    leave_s: float = 5.0  # time for a mold to end once it is dismissed
    backoff_s: float = 10.0  # pause after the first failure; doubles with each in a row


@dataclass(frozen=True, slots=True)
class Outcome:
    """The course of a rollout, or its end."""

    # "proven": the new mold can take over; "complete": all workers are replaced; "given up": the
    # chosen worker has ended or is not safe any more, which is not a failure; "failed": see `why`;
    # "late": failed, because the chosen worker hangs.
    kind: Literal["proven", "complete", "given up", "failed", "late"]
    why: str = ""


def batch(wanted: int) -> int:
    """Number of workers that are replaced at a time."""
    return max(1, wanted // 10)


class Rollout:
    """The rollout under way.

    Attributes:
        chosen: the worker that becomes the mold.
        target: the generation that the rollout leads to.
        before: the generation to go back to if the new mold fails while workers are replaced.
        canary: first worker of the new mold, until it is proven.
        payoff: the measurement at the start; None before it, and if it became meaningless.
    """

    def __init__(
        self, chosen: Worker, target: int, children: Children, limits: Limits, now: float
    ) -> None:
        self.phase: Phase = "measuring"
        self.chosen, self.target = chosen, target
        self.before = 0
        self.canary: Worker | None = None
        self.payoff: Payoff | None = None
        self._children, self._limits = children, limits
        self._since = now

    # --- Events -----------------------------------------------------------------------

    def measured(self, payoff: Payoff, now: float) -> None:
        if self.phase == "measuring":
            self.payoff = payoff
            self._enter("backfilling", now)

    def sealed(self, mold: Worker | None, now: float) -> None:
        """A promoted worker can fork from now on."""
        if self.phase == "promoting" and mold is self.chosen:
            mold.forks = True
            self._enter("canary", now)

    def spawned(self, worker: Worker) -> None:
        """A worker was forked."""
        if self.phase == "canary" and worker.generation == self.target and self.canary is None:
            self.canary = worker

    def take_over(self, before: int, now: float) -> None:
        """The new mold has proven itself: replace the workers of the generation before."""
        self.before, self.canary = before, None
        self._enter("rolling", now)

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase, self._since = phase, now

    # --- Actions ----------------------------------------------------------------------

    def extra(self, wanted: int) -> int:
        """Number of workers above the wanted number."""
        return {"backfilling": 1, "rolling": batch(wanted)}.get(self.phase, 0)

    def advance(self, now: float, wanted: int, generation: int) -> Action | Outcome | None:
        """The next action, or the outcome; None while it waits."""
        match self.phase:
            case "backfilling":
                return self._backfill(now, wanted, generation)
            case "promoting":
                if now - self._since <= self._limits.mold_s:
                    return None
                why = f"its mold was not ready after {self._limits.mold_s:.0f} s"
                return Outcome("late", why)
            case "canary":
                return self._try_canary(now)
            case "rolling":
                return self._roll(now, wanted)
        return None if self._can_be_promoted() else Outcome("given up")

    def _can_be_promoted(self) -> bool:
        chosen = self.chosen
        return chosen in self._children and chosen.active and not chosen.status.unsafe

    def _backfill(self, now: float, wanted: int, generation: int) -> Action | Outcome | None:
        if not self._can_be_promoted():
            return Outcome("given up")
        workers = self._children.workers
        if len(ready(workers)) > wanted - wanted // 10:
            self.chosen.role, self.chosen.generation = "mold", self.target
            self._enter("promoting", now)
            return Promote(self.chosen.pid, self.target)
        if len(workers) <= wanted:
            return Spawn(generation)
        if now - self._since > self._limits.boot_s:
            return Outcome("failed", "no spare worker became ready")
        return None

    def _try_canary(self, now: float) -> Action | Outcome | None:
        canary, boot_s = self.canary, self._limits.boot_s
        if canary is None:
            return Spawn(self.target)
        if canary.ready_at is None:
            if now - canary.spawned_at <= boot_s:
                return None
            return Outcome("failed", f"its first worker was not ready after {boot_s:.0f} s")
        if canary.status.requests > 0 or now - canary.ready_at >= self._limits.proof_s:
            return Outcome("proven")
        return None

    def _roll(self, now: float, wanted: int) -> Action | Outcome | None:
        workers = self._children.workers
        old = [w for w in workers if w.generation != self.target]
        booting = [w for w in workers if w.generation == self.target and not w.status.ready]
        if booting:
            if now - booting[0].spawned_at > self._limits.boot_s:
                return Outcome("failed", "a worker of it did not become ready")
        elif not old:
            return Outcome("complete")
        elif len(workers) > wanted and len(ready(workers)) > wanted - wanted // 10:
            old[0].leave(now)
            return Retire(old[0].pid)
        else:
            leaving = sum(w.leaving_at is not None for w in self._children.serving)
            if len(workers) <= wanted and leaving < batch(wanted):
                return Spawn(self.target)
        return None
