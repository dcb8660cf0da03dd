"""The life cycle of molds and generations: it decides which process forks, and when.

A pure state machine. The server reports what happened (`spawned`, `sealed`, `ended` ...) and asks
for one `next_action` at a time. The life cycle uses neither processes nor a clock, so a test can
play every sequence of events. Between two rollouts (`rollout`) it is idle.

Invariants:
- A rollout keeps the previous mold until its end. The server's own process, the mold of
  generation 0, always exists. So after any failure a proven parent is left.
- A rollout ends in success, or with one note on its failure.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from typing import Literal

from pasture.log_lines import REFORK_FAILED, REFORKED
from pasture.refork.children import OUTDATED, Children, Worker, mean_requests, ready
from pasture.refork.rollout import (
    Action,
    Dismiss,
    Kill,
    Limits,
    Measure,
    Note,
    Outcome,
    Phase,
    Retire,
    Rollout,
    Spawn,
)
from pasture.refork.schedule import Attempts, Payoff, Schedule
from pasture.scoreboard.board import WorkerStatus

STILLBORN = 2
"""Number of workers that end before their first answer and show that their mold is broken."""


class Lifecycle:
    """The processes of one server and the rollout under way.

    Attributes:
        children: the processes; shared with the server, which keeps its own in their records.
        rollout: the one under way; None between rollouts.
        generation: the one from which workers are forked now; 0 is the server itself.
    """

    def __init__(self, schedule: Schedule, limits: Limits | None = None) -> None:
        self.children = Children()
        self._schedule, self._limits = schedule, limits or Limits()
        self._queue: deque[Action] = deque()
        self._warned_of: set[int] = set()
        self._start_again()

    def _start_again(self) -> None:
        self.rollout: Rollout | None = None
        self.generation = 0
        self._last_generation = 0
        self._attempts = Attempts(self._schedule, self._limits.backoff_s)
        self._stillborn: Counter[int] = Counter()
        self._open_payoff: Payoff | None = None
        self._reforked_at = 0.0

    @property
    def phase(self) -> Phase:
        """Phase of the rollout; "idle" between rollouts."""
        return "idle" if self.rollout is None else self.rollout.phase

    # --- Events -----------------------------------------------------------------------

    def spawned(self, worker: Worker) -> None:
        """A worker was forked."""
        self.children.by_pid[worker.pid] = worker
        if self.rollout is not None:
            self.rollout.spawned(worker)

    def not_spawned(self, generation: int, why: str, now: float) -> None:
        """The mold of a generation failed to fork. It is not asked again."""
        self._lose_mold(self.children.mold_of(generation), why, now)

    def sealed(self, pid: int, now: float) -> None:
        """The promoted worker can fork from now on."""
        if self.rollout is not None:
            self.rollout.sealed(self.children.by_pid.get(pid), now)

    def refused(self, pid: int, why: str, now: float) -> None:
        """The promoted worker cannot become a mold, and ends."""
        worker = self.children.by_pid.get(pid)
        if worker is None:
            return
        worker.leave(now)
        if self._is_chosen(worker) and self.phase in ("promoting", "canary"):
            self._fail(why, now, refusal=why)

    def ended(self, pid: int, clean: bool, now: float) -> Worker | None:
        """Forget a process that ended, with status 0 if `clean`; returns its record, if any."""
        worker = self.children.by_pid.pop(pid, None)
        if worker is None or worker.role == "first mold":
            return worker
        if worker.role == "worker":
            self._worker_ended(worker, clean, now)
        elif self._is_chosen(worker) and self.phase == "promoting":
            self._fail("its mold ended before it was ready", now)
        else:
            self._lose_mold(worker, f"its mold (pid {worker.pid}) ended", now, is_there=False)
        return worker

    def hung(self, pid: int, now: float, why: str = "its mold hangs") -> None:
        """A mold has no recent heartbeat, or is not trusted any more."""
        self._queue.append(Kill(pid))
        self._lose_mold(self.children.by_pid.get(pid), why, now, is_there=False)

    def measured(self, total_bytes: int | None, now: float) -> None:
        """The memory of the whole server was read; None if that failed."""
        if self.rollout is not None:
            requests = mean_requests(self.children.workers)
            self.rollout.measured(Payoff(self.rollout.target, total_bytes, requests), now)
            return
        payoff, self._open_payoff = self._open_payoff, None
        if payoff is not None and (verdict := payoff.verdict(total_bytes)) is not None:
            pays, sentence = verdict
            self._note("info" if pays else "warning", sentence)
            if not pays:
                self._attempts.stop()

    def reload(self, now: float) -> None:
        """All workers are outdated, promoted ones included: the server replaces them."""
        for mold in self.children.molds:
            if mold.role == "mold":
                self._dismiss(mold, now)
            if self._is_chosen(mold) and self.phase == "promoting":
                mold.role = "worker"
                self._queue.append(Retire(mold.pid))
        for child in self.children:  # no process belongs to a living generation
            child.generation, child.forks = OUTDATED, False
        self._start_again()

    @property
    def is_settled(self) -> bool:
        """Whether generation 0 is not needed: a later one has replaced all workers."""
        return self.rollout is None and self.generation > 0

    @property
    def limit(self) -> int:
        """Number of a worker's requests at which an action may be due."""
        payoff = self._open_payoff if self.rollout is None else self.rollout.payoff
        return self._attempts.limit if payoff is None else math.ceil(payoff.settled_at)

    # --- Actions ----------------------------------------------------------------------

    def next_action(
        self, now: float, wanted: int, statuses: Mapping[int, WorkerStatus]
    ) -> Action | None:
        """The next action, or None.

        Args:
            statuses: reports of workers, by pid; workers without a report do not change.
        """
        self.children.update(statuses, now)
        for mold in self.children.molds:  # workers have requests to finish
            if mold.leaving_at is not None and now - mold.leaving_at > self._limits.leave_s:
                mold.leaving_at = now
                self._queue.append(Kill(mold.pid))
        while True:
            before = self.phase
            if self._queue:
                return self._queue.popleft()
            action = self._population(now, wanted) or self._go_on(now, wanted)
            if action is not None or (self.phase == before and not self._queue):
                return action

    def _population(self, now: float, wanted: int) -> Action | None:
        workers, extra = self.children.workers, 0
        if self.rollout is not None:
            workers = [w for w in workers if w is not self.rollout.canary]
            extra = self.rollout.extra(wanted)
        if len(workers) < wanted:
            return Spawn(self.generation)
        if len(workers) > wanted + extra:
            workers[0].leave(now)
            return Retire(workers[0].pid)
        return None

    def _go_on(self, now: float, wanted: int) -> Action | None:
        if self.rollout is None:
            return self._start_rollout(now, wanted)
        result = self.rollout.advance(now, wanted, self.generation)
        if not isinstance(result, Outcome):
            return result
        match result.kind:
            case "proven":
                self.rollout.take_over(self.generation, now)
                self.generation = self.rollout.target
            case "complete":
                self._note("info", REFORKED % self.generation)
                self._end_mold(self.rollout.before, now)
                self._attempts.succeeded()
                self._open_payoff, self._reforked_at = self.rollout.payoff, now
                self.rollout = None
            case "given up":
                self._last_generation -= 1
                self.rollout = None
            case "failed":
                self._fail(result.why, now)
            case "late":
                self.rollout.chosen.leave(now)
                self._queue.append(Kill(self.rollout.chosen.pid))
                self._fail(result.why, now)
        return None

    def _start_rollout(self, now: float, wanted: int) -> Action | None:
        """Measure the last rollout, or start one if a worker has served enough."""
        workers = self.children.workers
        if self._open_payoff is not None:
            return Measure() if self._is_settled_for(self._open_payoff, now) else None
        is_full = len(ready(workers)) == len(workers) >= wanted > 0
        is_current = all(w.generation != OUTDATED for w in workers)
        if not (self._attempts.may_start(now) and is_full and is_current):
            return None
        chosen = self._warmed(workers)
        if chosen is None:
            return None
        self._last_generation += 1
        self.rollout = Rollout(chosen, self._last_generation, self.children, self._limits, now)
        return Measure()

    def _is_settled_for(self, payoff: Payoff, now: float) -> bool:
        """Whether as many requests were served as before, and all replaced processes have ended.

        A worker may take any time for its requests; the wait is as long as for a mold.
        """
        if mean_requests(self.children.workers) < payoff.settled_at:
            return False
        is_late = now - self._reforked_at > self._limits.mold_s
        return is_late or all(child.active or child.forks for child in self.children)

    def _warmed(self, workers: list[Worker]) -> Worker | None:
        """The worker that has served most, if it has served enough."""
        warmed = [w for w in ready(workers) if w.status.requests >= self._attempts.limit]
        for worker in warmed:
            if worker.status.unsafe and worker.pid not in self._warned_of:
                self._warned_of.add(worker.pid)
                self._note("warning", f"worker {worker.pid} is no longer safe to fork")
        safe = [w for w in warmed if not w.status.unsafe]
        return max(safe, key=lambda w: w.status.requests, default=None)

    # --- Ends of rollouts and of molds ---------------------------------------------------

    def _fail(self, why: str, now: float, refusal: str = "") -> None:
        """End the rollout; the previous mold forks again."""
        rollout, self.rollout = self.rollout, None
        if rollout is None:
            return
        if rollout.phase == "rolling":
            self.generation = rollout.before
        if (canary := rollout.canary) is not None:
            if canary.ready_at is None:
                self._queue.append(Kill(canary.pid))
            else:
                canary.leave(now)
                self._queue.append(Retire(canary.pid))
        self._end_mold(rollout.target, now)
        next_try = self._attempts.failed(now, refusal)
        self._note("warning", REFORK_FAILED % (rollout.target, why, self.generation, next_try))

    def _lose_mold(
        self, mold: Worker | None, why: str, now: float, *, is_there: bool = True
    ) -> None:
        """Give up a mold; the effect depends on its part."""
        if mold is None or not mold.forks:
            return
        mold.forks = False
        if is_there:
            self._dismiss(mold, now)
        rollout, lost = self.rollout, mold.generation
        if rollout is not None and rollout.before == lost:
            rollout.before = 0
        needed_in = "canary" if lost != self.generation else "rolling"
        if rollout is not None and lost == rollout.target and rollout.phase == needed_in:
            self._fail(why, now)
        elif lost == self.generation:
            self._lose_generation(why)

    def _lose_generation(self, why: str) -> None:
        lost, self.generation = self.generation, 0
        self._attempts.lost()
        self._open_payoff = None
        if self.rollout is not None:
            self.rollout.payoff = None
        self._note(
            "warning",
            f"mold of generation {lost} lost: {why}; "
            "workers are forked from generation 0 until the next refork",
        )

    def _worker_ended(self, worker: Worker, clean: bool, now: float) -> None:
        if self.rollout is not None and worker is self.rollout.canary:
            self.rollout.canary = None
            self._fail("its first worker ended before it had proven itself", now)
            return
        if clean or worker.generation <= 0 or worker.status.requests or not worker.active:
            return
        self._stillborn[worker.generation] += 1
        if self._stillborn[worker.generation] >= STILLBORN:
            mold = self.children.mold_of(worker.generation)
            self._lose_mold(mold, "its workers end before their first answer", now)

    def _is_chosen(self, worker: Worker) -> bool:
        return self.rollout is not None and worker is self.rollout.chosen

    def _end_mold(self, generation: int, now: float) -> None:
        mold = self.children.mold_of(generation)
        if mold is not None:
            mold.forks = False
            self._dismiss(mold, now)

    def _dismiss(self, mold: Worker, now: float) -> None:
        mold.leave(now)
        self._queue.append(Dismiss(mold.pid))

    def _note(self, level: Literal["info", "warning"], text: str) -> None:
        self._queue.append(Note(level, text))
