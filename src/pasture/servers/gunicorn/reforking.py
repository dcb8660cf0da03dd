"""gunicorn's master process with reforks: it carries out what the life cycle decides.

Owns the arbiter's side: who is forked by whom, who is told what, and who is reaped. What
runs in workers and molds is in `promotion` and `succession`. Invariant: each process of the
tree is a child of the arbiter, and in WORKERS (a worker) or in `_molds`, until it is reaped.
Written for gunicorn 23 to 27; takes the place of spawn_worker, manage_workers and
reap_workers of its Arbiter, and reports the same figures.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from gunicorn import sock
from gunicorn.errors import HaltServer

from pasture.errors import UnsupportedInterpreter
from pasture.heap.interpreter import native
from pasture.servers.environment import ServerSettings
from pasture.servers.gunicorn.arbiter import SealingArbiter
from pasture.servers.gunicorn.promotion import LOOK, count_requests
from pasture.servers.gunicorn.succession import Start, live
from pasture.servers.refork.actions import (
    Action,
    Dismiss,
    Kill,
    Mark,
    Measure,
    Note,
    Promote,
    Retire,
    Spawn,
)
from pasture.servers.refork.board import Board
from pasture.servers.refork.lifecycle import Lifecycle, Limits
from pasture.servers.refork.line import CLOSED, Line, Message, open_line, wait_for
from pasture.servers.refork.mold import FORK_S
from pasture.servers.refork.pss import total_pss_bytes

_ABLE = ("gunicorn.workers.sync", "gunicorn.workers.gthread")
_SEAL_S = 30.0
_MEASURE_TRIES = 5


@dataclass(slots=True)
class Pen:
    """What the arbiter keeps of one process besides gunicorn's worker.

    Attributes:
        row: its number on the board.
    """

    line: Line
    row: int
    generation: int


class ReforkingArbiter(SealingArbiter):
    """An arbiter whose workers become parents."""

    reexec_pid: int
    _last_logged_active_worker_count: int | None

    def __init__(self, app: Any, settings: ServerSettings) -> None:
        self._cycle: Lifecycle | None = None
        self._pens: dict[int, Pen] = {}
        self._molds: dict[int, Any] = {}
        super().__init__(app, settings)

    # --- Begin, reload, end ------------------------------------------------------------

    def setup(self, app: Any) -> None:
        """As ever, and have requests counted: at the start, and again at each HUP."""
        super().setup(app)
        count_requests(app.cfg)

    def start(self) -> None:
        """Before the first fork."""
        super().start()
        reason, schedule = self._why_not(), self._settings.refork
        if reason is not None or schedule is None:
            self.log.warning("pasture: no refork: %s", reason)
            return
        native().adopt_orphans()
        self._board = Board()
        self._cycle = Lifecycle(schedule, self._limits())

    def _why_not(self) -> str | None:
        if self.cfg.reload:
            return "--reload loads the application in each worker"
        if self.cfg.reuse_port:
            return "with reuse_port each worker has a queue of connections of its own"
        if not any(base.__module__ in _ABLE for base in self.worker_class.__mro__):
            return f"workers of class {self.cfg.worker_class_str} cannot become parents"
        try:
            native()
        except UnsupportedInterpreter as error:
            return error.message
        return None

    def _limits(self) -> Limits:
        timeout_s = float(self.timeout or _SEAL_S)
        return Limits(
            boot_s=max(timeout_s, 1.0),
            mold_s=float(self.cfg.graceful_timeout) + timeout_s,
            mark_requests=0,
        )

    def reload(self) -> None:
        """HUP: new workers are forked by this process, so it is generation 0 again."""
        if self._cycle is not None:
            self._cycle.reload(time.monotonic())
        super().reload()

    def stop(self, graceful: bool = True) -> None:
        """End all; a promoted worker that still has requests is waited for as any other."""
        for pid in list(self._molds):
            if self._board.facts(self._pens[pid].row).ready:
                self.WORKERS[pid] = self._molds.pop(pid)
            self._pens[pid].line.close()
        super().stop(graceful)
        deadline = time.monotonic() + 1.0
        while self._molds and time.monotonic() < deadline:
            self.reap_workers()
            time.sleep(0.01)
        for pid in list(self._molds):
            self._signal(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            del self._molds[pid]

    def handle_usr1(self) -> None:
        """USR1: molds reopen their logs too, for those whom they fork."""
        super().handle_usr1()
        for pid in self._molds:
            self._signal(pid, signal.SIGUSR1)

    # --- What is to be done ------------------------------------------------------------

    def manage_workers(self) -> None:
        """Carry out what the life cycle wants, until there is nothing more for now."""
        if self._cycle is None:
            super().manage_workers()
            return
        self._hear_molds()
        while True:
            facts = {pid: self._board.facts(self._pens[pid].row) for pid in self.WORKERS}
            action = self._cycle.step(time.monotonic(), self.num_workers, facts)
            if action is None:
                break
            self._perform(action)
        self._board.wake_at(self._cycle.limit)
        self._report_workers()
        self._workers_are_forked()

    def _perform(self, action: Action) -> None:
        match action:
            case Spawn(0):
                self.spawn_worker()
            case Spawn(generation):
                self._order_worker(generation)
            case Mark(pid):
                self._tell(pid, "mark")
            case Promote(pid, generation):
                self._promote(pid, generation)
            case Retire(pid):
                self.kill_worker(pid, signal.SIGTERM)
            case Dismiss(pid) if pid in self._pens:
                self._pens[pid].line.close()
            case Kill(pid) if pid in self._pens:
                self._signal(pid, signal.SIGKILL)
            case Measure():
                self._measure()
            case Note(level, text):
                (self.log.warning if level == "warning" else self.log.info)("pasture: %s", text)

    def _promote(self, pid: int, generation: int) -> None:
        pen = self._pens[pid]
        pen.generation = generation
        self._board.promote(pen.row, generation)
        self._molds[pid] = self.WORKERS.pop(pid)
        self._tell(pid, "promote", generation=generation)
        requests = self._board.facts(pen.row).requests
        self.log.info(
            "pasture: worker %s is to become the mold of generation %s after %s requests",
            *(pid, generation, requests),
        )

    def _measure(self) -> None:
        self._cycle_or_fail().measured(self._total_pss_bytes(), time.monotonic())

    def _total_pss_bytes(self) -> int | None:
        for _ in range(_MEASURE_TRIES):
            total = total_pss_bytes((os.getpid(), *self.WORKERS, *self._molds))
            if total is not None:
                return total
            time.sleep(0.02)  # most likely one of them is about to end
            self.reap_workers()
        self.log.info("pasture: total PSS cannot be read")
        return None

    def _tell(self, pid: int, word: str, **values: Any) -> None:
        if self._pens[pid].line.send(word, **values):
            self._signal(pid, LOOK)

    def _hear_molds(self) -> None:
        now = time.monotonic()
        for pid in list(self._molds):
            while message := self._pens[pid].line.receive():
                if message.word == "sealed":
                    self.log.info("pasture: mold %s: %s", pid, message.values["report"])
                    self._cycle_or_fail().sealed(pid, now)
                elif message.word == "refused":
                    self._cycle_or_fail().refused(pid, message.values["why"], now)
                else:
                    break  # closed: it is about to be reaped

    # --- Births ------------------------------------------------------------------------

    def spawn_worker(self) -> int:
        """Fork a worker from this process: generation 0."""
        if self._cycle is None:
            pid: int = super().spawn_worker()
            return pid
        worker = self._make_worker()
        here, there = open_line()
        pen = Pen(here, self._board.take_row(), 0)
        self.cfg.pre_fork(self, worker)
        pid = os.fork()
        if pid == 0:
            self._live(Start(worker, there, self._board.row(pen.row), 0), here)
        there.close()
        self._adopt(pid, worker, pen)
        return pid

    def _live(self, start: Start, arbiters_end: Line) -> NoReturn:
        """In a new worker: close what is the arbiter's, then serve until the end."""
        arbiters_end.close()
        for pen in self._pens.values():
            pen.line.close()
        for sibling in (*self.WORKERS.values(), *self._molds.values()):
            sibling.tmp.close()
        board = self._board
        self._pens, self._molds = {}, {}
        live(self, start, board)

    def _order_worker(self, generation: int) -> None:
        """Have a mold fork a worker, and wait for it: milliseconds, or FORK_S at the most."""
        mold = self._cycle_or_fail().mold_of(generation)
        worker = self._make_worker()
        here, there = open_line()
        pen = Pen(here, self._board.take_row(), generation)
        files = (there.fileno(), worker.tmp.fileno())
        values = {"age": worker.age, "row": pen.row, "generation": generation}
        sent = mold is not None and self._pens[mold].line.send("spawn", files, **values)
        there.close()
        answer = self._await_birth(here, mold) if mold is not None and sent else CLOSED
        if answer.word != "born" or not here.send("go"):
            why = answer.values.get("why", f"mold {mold} did not fork ({answer.word})")
            here.close()
            worker.tmp.close()
            self._board.give_back(pen.row)
            if mold is not None and answer.word == "no answer":
                self._cycle_or_fail().hung(mold, time.monotonic())
            self._cycle_or_fail().not_born(generation, why, time.monotonic())
            return
        self._adopt(answer.values["pid"], worker, pen)
        self.log.info("pasture: worker %s of generation %s", worker.pid, generation)

    def _await_birth(self, line: Line, mold: int) -> Message:
        """The answer of the new worker, or what its mold says instead."""
        lines = [line, self._pens[mold].line]
        deadline = time.monotonic() + FORK_S
        while lines and (left := deadline - time.monotonic()) > 0:
            for ready in wait_for(lines, left):
                message = ready.receive()
                if message == CLOSED:
                    lines.remove(ready)  # the other one may know why
                elif message is not None:
                    return message
        return Message("no answer") if lines else CLOSED

    def _make_worker(self) -> Any:
        self.worker_age += 1
        return self.worker_class(
            *(self.worker_age, self.pid, self.LISTENERS, self.app, self.timeout / 2.0),
            *(self.cfg, self.log),
        )

    def _adopt(self, pid: int, worker: Any, pen: Pen) -> None:
        worker.pid = pid
        self.WORKERS[pid] = worker
        self._pens[pid] = pen
        self._board.register(pen.row, pid, pen.generation)
        stats = getattr(self, "_stats", None)  # from gunicorn 25 on
        if stats is not None:
            stats["workers_spawned"] += 1
        self._cycle_or_fail().born(pid, pen.generation, time.monotonic())

    # --- Deaths ------------------------------------------------------------------------

    def murder_workers(self) -> None:
        """Workers that hang, as ever; and molds."""
        super().murder_workers()
        if self._cycle is None or not self.timeout:
            return
        for pid, mold in self._molds.items():
            if self._board.facts(self._pens[pid].row).ready:
                continue  # it finishes its requests; the life cycle has the clock
            if time.monotonic() - mold.tmp.last_update() > max(self.timeout, _SEAL_S):
                self._cycle.hung(pid, time.monotonic())

    def reap_workers(self) -> None:
        """Wait for all that have ended: workers, molds, and orphans of either."""
        if self._cycle is None:
            super().reap_workers()
            return
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._reap(pid, status)

    def _reap(self, pid: int, status: int) -> None:
        if pid == self.reexec_pid:
            self.reexec_pid = 0
        elif pid == getattr(self, "dirty_arbiter_pid", 0):
            self.handle_dirty_arbiter_exit(pid, status)
        elif pid in self._pens:
            self._reap_ours(pid, status)
        else:
            self.log.debug("Reaped unknown child process (pid:%s, status:%s)", pid, status)

    def _reap_ours(self, pid: int, status: int) -> None:
        pen = self._pens.pop(pid)
        is_mold = pid in self._molds
        worker = self._molds.pop(pid, None) or self.WORKERS.pop(pid, None)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            log = self.log.error if code == -signal.SIGKILL else self.log.warning
            name = signal.Signals(-code).name
            log("%s (pid:%s) was sent %s!", "Mold" if is_mold else "Worker", pid, name)
        elif code > 0:
            self.log.error("Worker (pid:%s) exited with code %s.", pid, code)
        if code == self.WORKER_BOOT_ERROR:
            raise HaltServer("Worker failed to boot.", code)
        if code == self.APP_LOAD_ERROR:
            raise HaltServer("App failed to load.", code)
        pen.line.close()
        self._board.give_back(pen.row)
        if worker is not None:
            worker.tmp.close()
            self.cfg.child_exit(self, worker)
        self._cycle_or_fail().ended(pid, status == 0, time.monotonic())

    def _signal(self, pid: int, number: int) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    # --- Small steps -------------------------------------------------------------------

    def _cycle_or_fail(self) -> Lifecycle:
        if self._cycle is None:
            raise RuntimeError("a life cycle is asked for, and there is none")
        return self._cycle

    def _report_workers(self) -> None:
        """The figures that gunicorn's own manage_workers gives to statsd."""
        count = min(len(self.WORKERS), self.num_workers)
        if self._last_logged_active_worker_count != count:
            self._last_logged_active_worker_count = count
            extra = {"metric": "gunicorn.workers", "value": count, "mtype": "gauge"}
            self.log.debug("%s workers", count, extra=extra)
        if getattr(self.cfg, "enable_backlog_metric", False):
            backlog = sum(sock.get_backlog(listener) or 0 for listener in self.LISTENERS)
            extra = {"metric": "gunicorn.backlog", "value": backlog, "mtype": "histogram"}
            self.log.debug("socket backlog: %s", backlog, extra=extra)
