"""Reforks of one gunicorn: processes are forked, asked to end and reaped as the life cycle decides.

`spawn` knows how a process is forked; `promotion` and `worker_process` run in workers and molds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Literal

from gunicorn.errors import HaltServer

from pasture.errors import SealFailed
from pasture.proc.parent import is_own_child
from pasture.proc.smaps import total_pss_bytes
from pasture.proc.tree import read_again
from pasture.refork.channel import CLOSED
from pasture.refork.children import Worker
from pasture.refork.lifecycle import Lifecycle
from pasture.refork.rollout import (
    Action,
    Dismiss,
    Kill,
    Limits,
    Measure,
    Note,
    Promote,
    Retire,
    Spawn,
)
from pasture.refork.schedule import Schedule
from pasture.scoreboard.board import Scoreboard
from pasture.servers.gunicorn.arbiter import SealingArbiter
from pasture.servers.gunicorn.refork.promotion import LOOK
from pasture.servers.gunicorn.refork.spawn import (
    SENT_WHAT_NO_MOLD_SENDS,
    HoldsHazard,
    LoadEnded,
    NotLoaded,
    Spawner,
    SpawnFailed,
)
from pasture.trust.untrusted_text import printable
from pasture.warmup.process_state import signal_name

_SEAL_S = 30.0
_MEASURE_TRIES = 5
_LOAD_AGAIN_S, _LOAD_SOON_S = 10.0, 1.0


class Refork:
    """The molds and workers of one gunicorn, and their life cycle.

    gunicorn's own figures, hooks and records of workers are the arbiter's.
    """

    def __init__(self, arbiter: SealingArbiter, schedule: Schedule, board: Scoreboard) -> None:
        self._arbiter, self._board = arbiter, board
        timeout_s = float(arbiter.timeout or _SEAL_S)
        mold_s = float(arbiter.cfg.graceful_timeout) + timeout_s
        self._cycle = Lifecycle(schedule, Limits(boot_s=max(timeout_s, 1.0), mold_s=mold_s))
        self._children = self._cycle.children
        self._spawner = Spawner(arbiter, board, self._children)
        self._first_mold: Worker | None = None
        self._no_load_before = 0.0

    @property
    def _log(self) -> Any:
        return self._arbiter.log

    # --- What is to be done ------------------------------------------------------------

    def go_on(self) -> None:
        """Carry out all present orders of the life cycle."""
        for mold in self._children.molds:
            self._hear(mold)
        wanted = self._arbiter.num_workers
        while True:
            statuses = {w.pid: self._board.status(w.slot) for w in self._children.serving}
            action = self._cycle.next_action(time.monotonic(), wanted, statuses)
            if action is None:
                break
            if isinstance(action, Spawn) and not (
                self._arbiter.backoff.may_try(time.monotonic())
                and (action.generation or self._can_load())
            ):
                break
            self._perform(action)
        self._board.wake_at(self._cycle.limit)
        if self._cycle.is_settled:
            self._dismiss_first_mold()

    def _perform(self, action: Action) -> None:
        match action:
            case Spawn(generation):
                self.order(generation)
            case Promote(pid, generation) if worker := self._children.by_pid.get(pid):
                del self._arbiter.WORKERS[pid]
                self._board.promote(worker.slot, generation)
                if worker.channel.send("promote", generation=generation):
                    _signal(pid, LOOK)
                self._log.info(
                    "pasture: worker %s is to become the mold of generation %s after %s requests",
                    *(pid, generation, self._board.status(worker.slot).requests),
                )
            case Retire(pid) if worker := self._children.by_pid.get(pid):
                self._arbiter.WORKERS[pid] = worker.handle  # it may have been promoted
                self._arbiter.kill_worker(pid, signal.SIGTERM)
            case Dismiss(pid) if mold := self._children.by_pid.get(pid):
                mold.channel.close()
            case Kill(pid) if self._children.by_pid.get(pid):
                _signal(pid, signal.SIGKILL)
            case Measure():
                self._cycle.measured(self._total_pss_bytes(), time.monotonic())
            case Note(level, text):
                (self._log.warning if level == "warning" else self._log.info)("pasture: %s", text)

    def _total_pss_bytes(self) -> int | None:
        def wait() -> None:
            time.sleep(0.02)  # probably one of them is about to end
            self._arbiter.reap_workers()

        def read() -> int | None:
            return total_pss_bytes((os.getpid(), *(worker.pid for worker in self._children)))

        total = read_again(read, _MEASURE_TRIES, between=wait)
        if total is None:
            self._log.info("pasture: total PSS cannot be read")
        return total

    def _hear(self, mold: Worker) -> None:
        """Read a mold's message, which is only the outcome of its promotion."""
        now = time.monotonic()
        while (message := mold.channel.receive()) and message != CLOSED:
            has_answered, mold.has_answered = mold.has_answered, True
            if message.word == "sealed" and not has_answered:
                report = printable(message.values["report"])
                self._log.info("pasture: mold %s: %s", mold.pid, report)
                self._cycle.sealed(mold.pid, now)
            elif message.word == "refused" and not has_answered:
                self._cycle.refused(mold.pid, printable(message.values["why"]), now)
            else:  # its code was replaced
                self._log.error("pasture: mold %s is killed: %s", mold.pid, SENT_WHAT_NO_MOLD_SENDS)
                mold.channel.close()
                if mold is self._first_mold:
                    self._first_mold = None
                self._cycle.hung(mold.pid, now, SENT_WHAT_NO_MOLD_SENDS)

    # --- Spawning ----------------------------------------------------------------------

    def order(self, generation: int) -> None:
        """Have the mold of a generation fork a worker, and report it to the life cycle."""
        mold = self._children.mold_of(generation) if generation else self._first_mold
        try:
            worker = self._spawner.order(generation, mold)
        except SpawnFailed as error:
            if error.for_now:  # the mold is still good
                self._arbiter.try_again_later(error)
                return
            if mold is not None and error.mold_is_at_fault:
                self._cycle.hung(mold.pid, time.monotonic(), str(error))
            if generation == 0:
                self._log.warning("pasture: mold of generation 0 lost: %s", error)
                self._dismiss_first_mold()
            self._cycle.not_spawned(generation, str(error), time.monotonic())
        else:
            self._arbiter.backoff.succeeded()
            self._cycle.spawned(worker)
            self._log.info("pasture: worker %s of generation %s", worker.pid, generation)

    def reload(self) -> None:
        """Load the application again; if `Spawner.load` raises, nothing changes."""
        before, self._first_mold = self._first_mold, None
        try:
            self._first_mold = self._spawner.load()
        except (HoldsHazard, NotLoaded, LoadEnded, SpawnFailed):
            self._first_mold = before
            raise
        if before is not None:
            before.channel.close()
        self._cycle.reload(time.monotonic())

    def _can_load(self) -> bool:
        """Whether a mold of generation 0 exists, after an attempt to make one."""
        if self._first_mold is not None:
            return True
        self._arbiter.reap_workers()  # the previous mold may have ended by itself
        if time.monotonic() < self._no_load_before:
            return False
        try:
            self._first_mold = self._spawner.load()
        except SpawnFailed as error:
            self._arbiter.try_again_later(error)
            return False
        except HoldsHazard as error:
            if not self._arbiter.WORKERS:
                self._arbiter.start_again(str(error))
                self._log.error("pasture: gunicorn cannot start again here: %s", error)
                self._arbiter.unlink_and_end(SealFailed.exit_code)
            return self._load_again_later(error, _LOAD_AGAIN_S)
        except NotLoaded as error:
            if not self._arbiter.WORKERS:
                self._arbiter.unlink_and_end(error.status)
            return self._load_again_later(error, _LOAD_AGAIN_S)
        except LoadEnded as error:
            return self._load_again_later(error, _LOAD_SOON_S)
        return True

    def _load_again_later(self, error: Exception, wait_s: float) -> Literal[False]:
        self._no_load_before = time.monotonic() + wait_s
        self._log.error("pasture: %s; next try in %.0f s", error, wait_s)
        return False

    def _dismiss_first_mold(self) -> None:
        """End the first mold: it is not needed any more, and no process shares its memory."""
        if self._first_mold is not None:
            self._first_mold.channel.close()
            self._first_mold = None

    # --- Ends --------------------------------------------------------------------------

    def reap_all(self) -> None:
        """Reap all that have ended: workers, molds, and orphans of either."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self.reap(pid, status)

    def reap(self, pid: int, status: int) -> None:
        """Record an end; raises HaltServer if generation 0 cannot fork or boot workers."""
        arbiter = self._arbiter
        if (ended := self._children.by_pid.get(pid)) and ended.role != "worker":
            self._hear(ended)  # its last words, such as why it refused
        if pid == arbiter.reexec_pid:
            arbiter.reexec_pid = 0
        elif pid == getattr(arbiter, "dirty_arbiter_pid", 0):
            arbiter.handle_dirty_arbiter_exit(pid, status)
        elif worker := self._cycle.ended(pid, status == 0, time.monotonic()):
            self._has_ended(worker, os.waitstatus_to_exitcode(status))
        else:
            self._log.debug("Reaped unknown child process (pid:%s, status:%s)", pid, status)

    def _has_ended(self, worker: Worker, code: int) -> None:
        if worker is self._first_mold:
            self._first_mold = None
        self._spawner.let_go_of(worker)
        if code < 0:
            log = self._log.error if code == -signal.SIGKILL else self._log.warning
            what = "Worker" if worker.role == "worker" else "Mold"
            log("%s (pid:%s) was sent %s!", what, worker.pid, signal_name(-code))
        elif code > 0:
            self._log.error("Worker (pid:%s) exited with code %s.", worker.pid, code)
        if code == self._arbiter.WORKER_BOOT_ERROR:
            raise HaltServer("Worker failed to boot.", code)
        if code == self._arbiter.APP_LOAD_ERROR:
            raise HaltServer("App failed to load.", code)
        if worker.role == "first mold" and code > 0:  # its `pre_fork` has failed
            if not self._arbiter.WORKERS:
                raise HaltServer("No worker can be forked.", code)
            self._load_again_later(SpawnFailed("no worker can be forked"), _LOAD_AGAIN_S)

    def kill_molds_that_hang(self) -> None:
        """Kill molds with a heartbeat older than gunicorn's timeout and the limit of a seal."""
        longest_s = max(self._arbiter.timeout, _SEAL_S)
        for mold in self._children.molds:
            if self._board.status(mold.slot).ready:
                continue  # it finishes its requests; the life cycle watches its time
            try:
                beat_at = mold.handle.tmp.last_update()
            except (OSError, ValueError):  # as gunicorn does with its workers
                continue
            if time.monotonic() - beat_at > longest_s:
                self._cycle.hung(mold.pid, time.monotonic())

    def signal_molds(self, number: int) -> None:
        for mold in self._children.molds:
            _signal(mold.pid, number)

    def dismiss_molds(self) -> None:
        """Dismiss the molds of a server that ends. A mold with requests is a worker again."""
        for mold in self._children.molds:
            if self._board.status(mold.slot).ready:
                mold.role = "worker"
                self._arbiter.WORKERS[mold.pid] = mold.handle
            mold.channel.close()

    def end_molds(self) -> None:
        """Wait a second for the molds' end, then kill those that are left."""
        deadline = time.monotonic() + 1.0
        while self._children.molds and time.monotonic() < deadline:
            self._arbiter.reap_workers()
            time.sleep(0.01)
        for mold in self._children.molds:
            _signal(mold.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # gunicorn 23's handler was faster
                os.waitpid(mold.pid, 0)
            self._children.by_pid.pop(mold.pid, None)


def _signal(pid: int, number: int) -> None:
    if is_own_child(pid):
        os.kill(pid, number)
