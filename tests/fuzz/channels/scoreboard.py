"""Words of a scoreboard that a hostile worker has written, and all who read them.

The server may be root, and so may the reader outside. The worker can write any word of any row.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from guard import is_own_child
from prometheus_client import CollectorRegistry, generate_latest

from pasture.refork.children import Worker
from pasture.refork.lifecycle import Lifecycle
from pasture.refork.rollout import (
    Action,
    Dismiss,
    Kill,
    Measure,
    Promote,
    Retire,
    Spawn,
)
from pasture.refork.schedule import Schedule
from pasture.scoreboard import layout, reader
from pasture.scoreboard.board import Row, Scoreboard, Slot
from pasture_tools.metrics.exporter import ServerCollector

ROWS = 6
WANTED = 2
NEW_SERVER_EACH = 60
OUTSIDE_EACH = 50
METRICS_EACH = 2000


class Words:
    """A scoreboard, the server that keeps it, and its readers."""

    def __init__(self, child: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self._child = child
        self._board = Scoreboard(ROWS)
        self._slots: list[Slot] = []
        self._now = 0.0
        self._start_again()

    def _start_again(self) -> None:
        self._cycle = Lifecycle(Schedule((5, 50)))
        self._workers: dict[int, Slot] = {}
        self._spawned = 0

    def sample(self, random: Random) -> bytes:
        words = [0] * len(self._board.words)
        words[layout.MAGIC_AT], words[layout.COMMITS] = layout.MAGIC, random.randrange(9)
        for row in range(layout.FIRST_ROW, layout.FIRST_ROW + ROWS):
            at = row * layout.ROW_WORDS
            pid = random.choice((0, 1, self._child, os.getpid(), 2**22))
            words[at : at + 8] = [row, pid, 1, random.randrange(3), random.randrange(4), 1, 0, 0]
            words[at + layout.COUNTS.at["requests"]] = random.choice((0, 7, 60, 2**63, 2**64 - 1))
        return array("Q", words).tobytes()

    def take(self, data: bytes, random: Random) -> None:
        self._write(data)
        self._serve(random)
        self._write(data)
        self._check(reader.copy_of(self._board.words))
        if not random.randrange(OUTSIDE_EACH):
            self._read_from_outside()
        if not random.randrange(METRICS_EACH):
            self._export()

    def _write(self, data: bytes) -> None:
        room = self._board.words.cast("B")
        room[:] = data[: len(room)].ljust(len(room), b"\xff")

    def _serve(self, random: Random) -> None:
        """What a server does with its rows, and what a life cycle makes of them."""
        board = self._board
        slot = board.reserve()
        if slot is not None:
            board.register(slot, self._child, random.randrange(5))
            board.promote(slot, random.randrange(5))
            Row(board.words, slot).claim()
            self._slots.append(slot)
        if slot is None or not random.randrange(3):
            board.sweep()
            for one in self._slots:
                board.release(one.number)
            self._slots.clear()
        board.count_start()
        if not random.randrange(NEW_SERVER_EACH):
            self._start_again()
        self._live()

    def _live(self) -> None:
        self._now += 1.0
        statuses = {pid: self._board.status(slot) for pid, slot in self._workers.items()}
        cycle = self._cycle
        for _ in range(20):
            action = cycle.next_action(self._now, WANTED, statuses)
            if action is None:
                break
            self.outcomes[type(action).__name__] += 1
            self._carry_out(action)
        self._board.wake_at(cycle.limit)

    def _carry_out(self, action: Action) -> None:
        cycle = self._cycle
        match action:
            case Spawn(generation):
                self._spawned += 1
                pid = self._spawned + 1
                self._workers[pid] = Slot(layout.FIRST_ROW + pid % ROWS, 1)
                cycle.spawned(Worker(pid, generation, self._now))
            case Measure():
                cycle.measured(None if self._now % 2 else 10**9, self._now)
            case Promote(pid, _):
                del self._workers[pid]
                cycle.sealed(pid, self._now)
            case Retire(pid) | Dismiss(pid) | Kill(pid):
                self._workers.pop(pid, None)
                cycle.ended(pid, True, self._now)

    def _check(self, snapshot: layout.Snapshot | None) -> None:
        if snapshot is None:
            self.outcomes["changed all the while"] += 1
            return
        self.outcomes["understood"] += 1
        text = "" if snapshot.seal is None else snapshot.seal.policy + snapshot.seal.python
        assert text.isprintable() and len(snapshot.entries) <= ROWS

    def _read_from_outside(self) -> None:
        own = os.getpid()
        if reader.read_scoreboard(own) is not None:
            self.outcomes["read from outside"] += 1
        for worker in reader.read_entries(own):
            parent = reader.forked_by(worker, own)
            assert parent == own or is_own_child(parent), f"{parent} is called a mold"

    def _export(self) -> None:
        snapshot = reader.copy_of(self._board.words)
        registry = CollectorRegistry()
        registry.register(ServerCollector(os.getpid(), read=lambda pid: snapshot))
        generate_latest(registry)
        self.outcomes["exported"] += 1


@contextmanager
def open_target() -> Iterator[Words]:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    os.close(read_end)
    try:
        yield Words(child)
    finally:
        os.close(write_end)
        os.waitpid(child, 0)
