"""Who forks whom and when: the life cycle of molds and generations, a pure state machine.

It is told what happened (`born`, `sealed`, `ended` ...) and asked, one `step` at a time, what
is to be done. It touches no process and no clock, so every course of events can be played
through in a test.

A round, from one generation to the next:

    idle -> measuring -> backfilling -> promoting -> canary -> rolling -> idle

- measuring: a worker is chosen, and what the whole server takes is measured.
- backfilling: a spare worker is forked, so that the chosen one will not be missed.
- promoting: the chosen worker finishes its requests, seals itself, and serves no more.
- canary: the new mold has forked one worker, which has to prove itself.
- rolling: workers are replaced, each only after its replacement is ready.

Invariants:
- Of `wanted` workers a round takes away at most a tenth, rounded down, at any time.
- Until a round is over the mold before is kept. The server's own process, the mold of
  generation 0, is always there. So whatever fails, there is a parent that has proven itself.
- A round ends in success, or with one note that says why it failed.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pasture.scoreboard.board import WorkerStatus
from pasture.servers.refork.actions import (
    Action,
    Dismiss,
    Kill,
    Measure,
    Note,
    Promote,
    Retire,
    Spawn,
)
from pasture.servers.refork.children import OUTDATED, Children, Worker, mean_requests, ready
from pasture.servers.refork.payoff import Payoff
from pasture.servers.refork.schedule import Schedule

Phase = Literal["idle", "measuring", "backfilling", "promoting", "canary", "rolling"]

MOST_FAILURES = 3
"""In a row; then no further round is begun until a reload."""

STILLBORN = 2
"""Workers of one mold that end by themselves before their first answer: it is broken."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long what may take, seconds, and how much evidence is enough.

    Attributes:
        boot_s: from a worker's birth until it is ready.
        mold_s: from a promotion until the mold is sealed: last requests included.
        proof_s: for which a ready worker has to live if no request reaches it.
        leave_s: for a mold to end once it is dismissed.
        backoff_s: after the first failure; doubles with each in a row.
    """

    boot_s: float = 30.0
    mold_s: float = 60.0
    proof_s: float = 2.0
    leave_s: float = 5.0
    backoff_s: float = 10.0


class Lifecycle:
    """The processes of one server and the round under way.

    Attributes:
        phase: of the round.
        generation: of the mold from which workers are forked now; 0 is the server itself.
    """

    def __init__(self, schedule: Schedule, limits: Limits | None = None) -> None:
        self.children = Children()
        self._schedule, self._limits = schedule, limits or Limits()
        self._queue: deque[Action] = deque()
        self._warned_of: set[int] = set()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.phase: Phase = "idle"
        self.generation = 0
        self._level = 0
        self._molds: dict[int, int] = {}
        self._before = 0
        self._chosen: int | None = None
        self._canary: int | None = None
        self._since = 0.0
        self._last_generation = 0
        self._failures = 0
        self._wait_until = 0.0
        self._stopped = False
        self._stillborn: Counter[int] = Counter()
        self._payoff: Payoff | None = None
        self._awaits_total = False

    # --- What happened -----------------------------------------------------------------

    def spawned(self, pid: int, generation: int, now: float) -> None:
        """A worker was forked."""
        self.children.add(pid, generation, now)
        if self.phase == "canary" and generation == self._target and self._canary is None:
            self._canary, self._since = pid, now

    def not_spawned(self, generation: int, why: str, now: float) -> None:
        """The mold of a generation did not fork. It is not asked again."""
        self._lose_mold(generation, why, now, is_there=True)

    def sealed(self, pid: int, now: float) -> None:
        """The promoted worker can fork from now on."""
        if self.phase == "promoting" and pid == self._chosen:
            self._molds[self._target] = pid
            self._enter("canary", now)

    def refused(self, pid: int, why: str, now: float) -> None:
        """The promoted worker cannot become a mold, and ends."""
        self._leave(pid, now)
        if pid == self._chosen and self.phase in ("promoting", "canary"):
            self._fail(why, now)

    def ended(self, pid: int, clean: bool, now: float) -> None:
        """A process is gone.

        Args:
            clean: by itself and with status 0.
        """
        worker = self.children.remove(pid)
        if worker is None:
            return
        if worker.role == "mold":
            self._mold_ended(worker, now)
        else:
            self._worker_ended(worker, clean, now)

    def hung(self, pid: int, now: float) -> None:
        """A mold has not shown a sign of life for too long."""
        self._queue.append(Kill(pid))
        for generation, mold in list(self._molds.items()):
            if mold == pid:
                self._lose_mold(generation, "its mold hangs", now, is_there=False)

    def measured(self, total_bytes: int | None, now: float) -> None:
        """What the whole server takes; None if it cannot be told."""
        if not self._awaits_total:
            return
        self._awaits_total = False
        if self.phase != "idle":  # before: the round goes on
            requests, least = mean_requests(self.children.workers), self._schedule.least_saving
            self._payoff = Payoff(self._target, total_bytes, requests, least)
            return
        payoff, self._payoff = self._payoff, None
        verdict = payoff and total_bytes is not None and payoff.verdict(total_bytes)
        if verdict:
            self._note("info" if verdict.pays else "warning", str(verdict))
            self._stopped = not verdict.pays

    def reload(self, now: float) -> None:
        """All there is is outdated: back to generation 0. The server replaces its workers."""
        for mold in self.children.molds:
            self._dismiss(mold.pid, now)
        self.children.outdate()
        self._begin_anew()

    def mold_of(self, generation: int) -> int | None:
        """Pid of the mold that forks workers of a generation; None if there is none."""
        return self._molds.get(generation)

    @property
    def is_settled(self) -> bool:
        """Whether generation 0 is of no use: a later one has replaced all workers."""
        return self.phase == "idle" and self.generation > 0

    @property
    def limit(self) -> int:
        """Requests of a worker at which something may have to be done."""
        if self._payoff is not None:
            return math.ceil(self._payoff.settled_at)
        return self._schedule.limit(self._level)

    # --- What is to be done ------------------------------------------------------------

    def next_action(
        self, now: float, wanted: int, status: Mapping[int, WorkerStatus]
    ) -> Action | None:
        """The next thing to do; None if there is nothing for now.

        Args:
            wanted: number of workers.
            status: by pid, of workers that can be read; others stay as they were.
        """
        self.children.update(status, now)
        self._watch_leaving(now)
        while True:
            before = self.phase
            if self._queue:
                return self._queue.popleft()
            action = self._population(now, wanted) or self._round(now, wanted)
            if action is not None or (self.phase == before and not self._queue):
                return action

    def _population(self, now: float, wanted: int) -> Action | None:
        workers = [w for w in self.children.workers if w.pid != self._canary]
        if len(workers) < wanted:
            return Spawn(self.generation)
        if len(workers) > wanted + self._extra(wanted):
            return self._retire(workers[0], now)
        return None

    def _extra(self, wanted: int) -> int:
        return {"backfilling": 1, "rolling": _batch(wanted)}.get(self.phase, 0)

    def _round(self, now: float, wanted: int) -> Action | None:
        return {
            "idle": self._while_idle,
            "measuring": self._while_measuring,
            "backfilling": self._while_backfilling,
            "promoting": self._while_promoting,
            "canary": self._while_canary,
            "rolling": self._while_rolling,
        }[self.phase](now, wanted)

    def _while_idle(self, now: float, wanted: int) -> Action | None:
        workers = self.children.workers
        if self._payoff is not None:
            if mean_requests(workers) >= self._payoff.settled_at:
                return self._measure()
            return None
        if self._stopped or now < self._wait_until or not self._is_full(wanted):
            return None
        warmed = self._warmed(workers)
        if warmed is None:
            return None
        self._chosen = warmed.pid
        self._last_generation += 1
        self._enter("measuring", now)
        return self._measure()

    def _warmed(self, workers: list[Worker]) -> Worker | None:
        """The worker that has served most, if it has served enough."""
        limit = self._schedule.limit(self._level)
        warmed = [w for w in ready(workers) if w.status.requests >= limit]
        for worker in warmed:
            if worker.status.unsafe and worker.pid not in self._warned_of:
                self._warned_of.add(worker.pid)
                self._note("warning", f"worker {worker.pid} is no longer safe to fork")
        safe = [w for w in warmed if not w.status.unsafe]
        return max(safe, key=lambda w: w.status.requests, default=None)

    def _while_measuring(self, now: float, wanted: int) -> Action | None:
        if self._still_chosen(now) is not None and self._payoff is not None:
            self._enter("backfilling", now)
        return None

    def _while_backfilling(self, now: float, wanted: int) -> Action | None:
        chosen = self._still_chosen(now)
        if chosen is None:
            return None
        workers = self.children.workers
        if len(ready(workers)) > wanted - wanted // 10:
            chosen.role = "mold"
            self._enter("promoting", now)
            return Promote(chosen.pid, self._target)
        if len(workers) <= wanted:
            return Spawn(self.generation)
        if now - self._since > self._limits.boot_s:
            self._fail("no spare worker became ready", now)
        return None

    def _still_chosen(self, now: float) -> Worker | None:
        """The chosen worker; without it the round is given up."""
        chosen = self.children.get(self._chosen)
        if chosen is not None and chosen.active and not chosen.status.unsafe:
            return chosen
        self._payoff = None
        self._last_generation -= 1
        self._enter("idle", now)
        return None

    def _while_promoting(self, now: float, wanted: int) -> Action | None:
        if now - self._since > self._limits.mold_s:
            self._kill_chosen(now)
            self._fail(f"its mold was not ready after {self._limits.mold_s:.0f} s", now)
        return None

    def _while_canary(self, now: float, wanted: int) -> Action | None:
        canary = self.children.get(self._canary)
        if canary is None:
            return Spawn(self._target)
        if self._has_proven_itself(canary, now):
            self._before, self.generation = self.generation, self._target
            self._canary = None
            self._enter("rolling", now)
            return None
        if canary.ready_at is None and now - canary.spawned_at > self._limits.boot_s:
            self._fail(f"its first worker was not ready after {self._limits.boot_s:.0f} s", now)
        return None

    def _has_proven_itself(self, canary: Worker, now: float) -> bool:
        if canary.ready_at is None:
            return False
        return canary.status.requests > 0 or now - canary.ready_at >= self._limits.proof_s

    def _while_rolling(self, now: float, wanted: int) -> Action | None:
        workers = self.children.workers
        old = [w for w in workers if w.generation != self.generation]
        late = [w for w in workers if w.generation == self.generation and not w.status.ready]
        if late:
            if now - late[0].spawned_at > self._limits.boot_s:
                self._lose_mold(self.generation, "a worker of it did not become ready", now, True)
        elif not old:
            self._succeed(now)
        elif len(workers) > wanted and len(ready(workers)) > wanted - wanted // 10:
            return self._retire(old[0], now)
        elif len(workers) <= wanted and self._leaving_workers() < _batch(wanted):
            return Spawn(self.generation)
        return None

    def _leaving_workers(self) -> int:
        return sum(1 for w in self.children.leaving if w.role == "worker")

    # --- Ends of rounds ----------------------------------------------------------------

    def _succeed(self, now: float) -> None:
        self._note("info", f"all workers are of generation {self.generation}")
        self._end_mold(self._before, now)
        self._level += 1
        self._failures = 0
        self._enter("idle", now)

    def _fail(self, why: str, now: float) -> None:
        """End the round; the mold that was good before is good again."""
        failed, canary = self._target, self.children.get(self._canary)
        if canary is not None:
            if canary.ready_at is None:
                self._queue.append(Kill(canary.pid))
            else:
                self._queue.append(self._retire(canary, now))
        self._end_mold(failed, now)
        self._payoff = None
        self._failures += 1
        self._enter("idle", now)
        wait_s = self._limits.backoff_s * 2 ** (self._failures - 1)
        self._wait_until = now + wait_s
        self._stopped = self._failures >= MOST_FAILURES
        then = f"the next try is in {wait_s:.0f} s at the earliest"
        if self._stopped:
            then = f"{self._failures} failures in a row, no further try until the next HUP"
        self._note(
            "warning",
            f"refork to generation {failed} failed: {why}; "
            f"generation {self.generation} goes on; {then}",
        )

    def _lose_mold(self, generation: int, why: str, now: float, is_there: bool) -> None:
        """A mold is of no use any more: what it means depends on what it was needed for."""
        if generation == 0 or generation not in self._molds:
            return
        if is_there:
            self._end_mold(generation, now)
        else:
            self._forget_mold(generation)
        if generation == self._before:
            self._before = 0
        if generation != self.generation:
            if generation == self._target and self.phase == "canary":
                self._fail(why, now)
            return
        self.generation = self._before if self.phase == "rolling" else 0
        if self.phase == "rolling":
            self._fail(why, now)
            return
        self._level = max(0, self._level - 1)
        self._payoff = None
        self._note(
            "warning",
            f"mold of generation {generation} lost: {why}; "
            "workers are forked from generation 0 until the next refork",
        )

    def _mold_ended(self, worker: Worker, now: float) -> None:
        if self.phase == "promoting" and worker.pid == self._chosen:
            self._fail("its mold ended before it was ready", now)
            return
        for generation, pid in list(self._molds.items()):
            if pid == worker.pid:
                self._lose_mold(generation, f"its mold (pid {pid}) ended", now, is_there=False)

    def _worker_ended(self, worker: Worker, clean: bool, now: float) -> None:
        if worker.pid == self._canary:
            self._canary = None
            self._fail("its first worker ended before it had proven itself", now)
            return
        if clean or worker.generation <= 0 or worker.status.requests or not worker.active:
            return
        self._stillborn[worker.generation] += 1
        if self._stillborn[worker.generation] >= STILLBORN:
            why = "its workers end before their first answer"
            self._lose_mold(worker.generation, why, now, is_there=True)

    # --- Small steps -------------------------------------------------------------------

    @property
    def _target(self) -> int:
        """The generation that the round leads to."""
        return self._last_generation

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase, self._since = phase, now
        if phase == "idle":
            self._chosen = self._canary = None
            self._before = 0
            self._awaits_total = False

    def _measure(self) -> Action:
        self._awaits_total = True
        return Measure()

    def _is_full(self, wanted: int) -> bool:
        workers = self.children.workers
        up = len(ready(workers)) == len(workers) >= wanted > 0
        return up and all(w.generation != OUTDATED for w in workers)

    def _retire(self, worker: Worker, now: float) -> Action:
        worker.leaving_at = now
        return Retire(worker.pid)

    def _leave(self, pid: int, now: float) -> None:
        worker = self.children.get(pid)
        if worker is not None and worker.leaving_at is None:
            worker.leaving_at = now

    def _dismiss(self, pid: int, now: float) -> None:
        self._leave(pid, now)
        self._queue.append(Dismiss(pid))

    def _end_mold(self, generation: int, now: float) -> None:
        pid = self._molds.get(generation)
        self._forget_mold(generation)
        if self.children.get(pid) is not None and pid is not None:
            self._dismiss(pid, now)

    def _forget_mold(self, generation: int) -> None:
        self._molds.pop(generation, None)

    def _kill_chosen(self, now: float) -> None:
        if self._chosen is not None:
            self._leave(self._chosen, now)
            self._queue.append(Kill(self._chosen))

    def _watch_leaving(self, now: float) -> None:
        """Molds that do not end are killed. Workers have requests to finish."""
        for worker in self.children.leaving:
            overdue = worker.leaving_at is not None and now - worker.leaving_at
            if worker.role == "mold" and overdue and overdue > self._limits.leave_s:
                worker.leaving_at = now
                self._queue.append(Kill(worker.pid))

    def _note(self, level: Literal["info", "warning"], text: str) -> None:
        self._queue.append(Note(level, text))


def _batch(wanted: int) -> int:
    """How many workers are replaced at a time."""
    return max(1, wanted // 10)
