"""Counts inside a server's processes: starts, requests, collections, pauses, recycles.

The server reserves a row of the scoreboard before each fork for a worker (`expect_worker`), and the
child claims it. Without memory for a scoreboard the server works without counts.
"""

from __future__ import annotations

import bisect
import contextlib
import gc
import os
import threading
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

from pasture.log_lines import log
from pasture.proc.smaps import own_private_bytes, read_own
from pasture.reasons import Reason
from pasture.scoreboard import layout, reader
from pasture.scoreboard.board import Row, Scoreboard, Slot
from pasture.scoreboard.figures import GENERATIONS, PAUSE_BOUNDS_S
from pasture.scoreboard.growth import Growth, judge

_AT = layout.COUNTS.at
_BOUNDS_NS = tuple(int(bound * 1e9) for bound in PAUSE_BOUNDS_S)


class Recorder:
    """Counts of this process. Use the only instance, `recorder`."""

    def __init__(self) -> None:
        self._board: Scoreboard | None = None
        self._cannot: OSError | None = None
        self._watching = False
        self._is_descendant = False
        self._ran_out = False
        self._expected: dict[int, Slot] = {}  # by thread that is about to fork
        self._says_requests = 0
        self._row: Row | None = None
        self._row_pid = 0
        self._began_ns = 0
        self._counting = threading.Lock()

    # --- In the server ------------------------------------------------------------------

    def watch_forks(self) -> None:
        """Make each child of this process claim the row reserved for it, or stop counting."""
        if not self._watching:
            self._watching = True
            os.register_at_fork(after_in_parent=self.forked, after_in_child=self._after_in_child)

    def scoreboard(self) -> Scoreboard | None:
        """The server's scoreboard, made at the first call; None if there is no memory for it."""
        if self._board is None and self._cannot is None and not self._is_descendant:
            self.watch_forks()
            try:
                self._board = Scoreboard()
            except OSError as error:
                self._cannot = error
                log.warning("no metrics: memory for the counters is missing: %s", error)
        return self._board

    def expect_worker(self) -> None:
        """Announce, once or more, that the next fork of this thread is a worker's."""
        thread = threading.get_ident()
        if self._is_descendant or self._row is not None or thread in self._expected:
            return
        board = self.scoreboard()
        if board is None:
            return
        board.sweep(if_due=True)
        slot = board.reserve()
        if slot is not None:
            self._expected[thread] = slot
            return
        board.count_start()
        if not self._ran_out:
            self._ran_out = True
            log.warning("the scoreboard is full: further workers are counted only at their start")

    def forked(self) -> Slot | None:
        """Note that the announced fork took place; returns the row reserved for its child.

        Call this only after a fork by C code, and before a process comes between.
        """
        return self._expected.pop(threading.get_ident(), None)

    def will_count_requests(self, *, main_serves: bool = False) -> None:
        """Announce that workers count requests, and whether their main thread serves."""
        self._says_requests = 2 if main_serves else 1

    def show_seal(self, report: Mapping[str, Any]) -> None:
        """Publish a `SealReport.as_dict`. In the process that loaded the application."""
        board = self.scoreboard()
        if board is not None:
            figures = {
                **report,
                "python": report["interpreter"]["version"],
                "why": _why(report),
                "hazards": sum(
                    one["kind"] != Reason.GENERATOR for one in report.get("hazards", ())
                ),
            }
            for name in layout.SEAL.at.keys() & figures.keys():
                layout.SEAL.write(board.words, name, figures[name])
            board.words[layout.SEAL_SHOWN] = 1

    def show_probe(self, outcome: str) -> None:
        """Publish the outcome of a probe of the sealed process: one of `figures.PROBES`."""
        board = self.scoreboard()
        if board is not None:
            layout.SEAL.write(board.words, "probe", outcome)

    def snapshot(self) -> layout.Snapshot | None:
        """The scoreboard that this process has made or inherited, or None."""
        return None if self._board is None else reader.copy_of(self._board.words)

    # --- In a worker --------------------------------------------------------------------

    def _after_in_child(self) -> None:
        self._counting = threading.Lock()  # another thread of the parent may have held the lock
        if self._row_pid == os.getpid():
            return  # the child has started already
        slot = self._expected.get(threading.get_ident())
        self._expected.clear()
        self._row = None
        self._is_descendant = self._board is not None
        if slot is not None:
            self.begin(slot)

    def begin(self, slot: Slot | None = None, role: int = layout.PLAIN) -> None:
        """Count from now on, in a worker. Call this only after forks by C code and by molds.

        Args:
            slot: row reserved for this process; None takes the announced fork's.
            role: of `layout`, for a process that is not a worker.
        """
        if self._row_pid == os.getpid() or self._board is None:
            return
        slot = slot or self._expected.get(threading.get_ident())
        self._expected.clear()
        self._row, self._row_pid, self._is_descendant = None, os.getpid(), True
        if slot is None:
            return
        row = Row(self._board.words, slot)
        if not row.claim():
            return
        self._row = row
        if role == layout.PLAIN:
            row.words[_AT["starts"]] = 1
            row.words[layout.SAYS_REQUESTS] = self._says_requests
        else:
            row.words[layout.ROLE] = role
        with contextlib.suppress(OSError):
            row.words[layout.PRIVATE_AT_START] = own_private_bytes()
        if self._count_collection not in gc.callbacks:
            gc.callbacks.append(self._count_collection)

    def count(self, name: str) -> None:
        """Add one to a figure of `Counts`. Threads of a worker may call it at once."""
        row = self._row
        if row is not None:
            with self._counting:
                row.words[_AT[name]] += 1

    def answered(self) -> None:
        """Count a response. When the number has doubled, take milliseconds to note the memory."""
        row = self._row
        if row is None:
            return
        with self._counting:
            row.words[_AT["requests"]] += 1
            requests = row.words[_AT["requests"]]
            if requests & (requests - 1) == 0:
                with contextlib.suppress(OSError):
                    held = [*self._marks(row)[1:], read_own().anonymous_bytes]
                    for mark, value in zip(layout.MARKS, held, strict=True):
                        row.words[mark] = value

    def growth(self) -> Growth | None:
        """The steady growth of this process with its requests; None without."""
        if self._row is None:
            return None
        try:
            held = read_own().anonymous_bytes
        except OSError:
            return None
        return judge(self._row.requests, self._marks(self._row), held)

    @staticmethod
    def _marks(row: Row) -> list[int]:
        return [row.words[mark] for mark in layout.MARKS]

    def _count_collection(self, phase: str, info: dict[str, Any]) -> None:
        """Count a collection. The collector may call it at any moment, so it takes no lock."""
        row = self._row
        if row is None:
            return
        if phase == "start":
            self._began_ns = perf_counter_ns()
            return
        pause_ns = perf_counter_ns() - self._began_ns
        generation = min(info["generation"], GENERATIONS - 1)
        row.words[_AT["collections"] + generation] += 1
        row.words[_AT["collected"] + generation] += info["collected"]
        row.words[_AT["pauses"] + bisect.bisect_left(_BOUNDS_NS, pause_ns)] += 1
        row.words[_AT["pause_ns"]] += pause_ns


def _why(report: Mapping[str, Any]) -> str:
    """The code of the reason if a heap is not sealed, its own or a step's; else ""."""
    codes = (report.get("why"), *(step.get("why") for step in report.get("steps", ())))
    return "" if report["sealed"] else next((f"{code}" for code in codes if code), "")


recorder = Recorder()
