"""gunicorn's master process with reforks: it carries out what the life cycle decides.

Owns when who is forked, told to end, and reaped; how is in `spawn`, and what runs in workers
and molds in `promotion` and `worker_process`. Written for gunicorn 23 to 27; takes the place of
spawn_worker, manage_workers and reap_workers of its Arbiter, and reports the same figures.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Literal

from gunicorn.errors import HaltServer

from pasture.errors import UnsupportedInterpreter
from pasture.fork_safety.libraries.gevent import gevent_has_patched
from pasture.interpreter import native
from pasture.proc.again import read_again
from pasture.proc.own_child import is_own_child
from pasture.proc.smaps import total_pss_bytes
from pasture.refork.actions import (
    Action,
    Dismiss,
    Kill,
    Measure,
    Note,
    Promote,
    Retire,
    Spawn,
)
from pasture.refork.channel import CLOSED
from pasture.refork.children import Worker
from pasture.refork.lifecycle import Lifecycle
from pasture.refork.mold import policy_of_server
from pasture.refork.round import Limits
from pasture.refork.served import VARIABLE
from pasture.scoreboard.recorder import recorder
from pasture.sealing.seal import seal
from pasture.servers.gunicorn import asgi, cooperative
from pasture.servers.gunicorn.hooks import call_after_request
from pasture.servers.gunicorn.refork.promotion import LOOK, has_answered, has_answered_asgi
from pasture.servers.gunicorn.refork.spawn import (
    SENT_WHAT_NO_MOLD_SENDS,
    LoadEnded,
    NotLoaded,
    SpawnFailed,
    SpawningArbiter,
)
from pasture.servers.settings import ServerSettings
from pasture.trust.untrusted_text import printable

_ABLE = (
    *("gunicorn.workers.sync", "gunicorn.workers.gthread"),
    *(*asgi.OF_GUNICORN, *asgi.OF_UVICORN, *cooperative.OF_GEVENT),
)
_SEAL_S = 30.0
_MEASURE_TRIES = 5
_LOAD_AGAIN_S, _LOAD_SOON_S = 10.0, 1.0


class ReforkingArbiter(SpawningArbiter):
    """An arbiter whose workers become parents."""

    told = staticmethod(has_answered_asgi)
    _last_logged_active_worker_count: int | None

    def __init__(self, app: Any, settings: ServerSettings) -> None:
        self._cycle: Lifecycle | None = None
        self._first_mold: Worker | None = None
        self._no_load_before = 0.0
        self._reloading = self._stopping = False
        super().__init__(app, settings)

    # --- Begin, reload, end ------------------------------------------------------------

    def setup(self, app: Any) -> None:
        """Set up as usual, and let workers wake the arbiter: at the start and at each HUP."""
        super().setup(app)
        call_after_request(app.cfg, self._settings.memory_limit, has_answered)

    def _load_application(self, asked_for: bool) -> None:
        """Leave it to the mold of generation 0, which can be ended later."""
        if self._why_not() is not None:
            super()._load_application(asked_for)

    def start(self) -> None:
        """Before the first fork."""
        super().start()
        reason, schedule = self._why_not(), self._settings.refork
        if reason is not None or schedule is None:
            self.log.warning("pasture: no refork: %s", reason)
            return
        native().adopt_orphans()
        self._import_control_server()  # asyncio, which applications have too: one copy for all
        seal(policy_of_server(self._settings.policy))
        board = recorder.scoreboard()
        if board is None:
            self.log.warning("pasture: no refork: there is no memory for a scoreboard")
            return
        self._board = board
        self._cycle = Lifecycle(schedule, self._limits(), self.children)

    def _why_not(self) -> str | None:
        if self.cfg.reload:
            return "--reload loads the application in each worker"
        if self.cfg.reuse_port:
            return "with reuse_port each worker has a queue of connections of its own"
        if not asgi.is_of(self.worker_class, _ABLE):
            return f"workers of class {self.cfg.worker_class_str} cannot become parents"
        if asgi.is_of(self.worker_class, cooperative.OF_GEVENT) and gevent_has_patched():
            return "gevent's patches are in before pasture's: leave them out of gunicorn.conf.py"
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
        )

    def reload(self) -> None:
        """HUP: new workers of new code, from a new mold of generation 0.

        Where the new code cannot be loaded the old one goes on.
        """
        self._reloading = True
        try:
            super().reload()
        except (NotLoaded, LoadEnded, SpawnFailed) as error:
            self.log.error("pasture: HUP: %s; the workers that are there go on", error)
        finally:
            self._reloading = False

    def stop(self, graceful: bool = True) -> None:
        """End all; a promoted worker that still has requests is waited for as any other."""
        self._stopping = True
        for mold in self.children.molds:
            if self._board.status(mold.seat).ready:
                mold.role = "worker"
                self.WORKERS[mold.pid] = mold.handle
            mold.channel.close()
        super().stop(graceful)
        deadline = time.monotonic() + 1.0
        while self.children.molds and time.monotonic() < deadline:
            self.reap_workers()
            time.sleep(0.01)
        for mold in self.children.molds:
            self._signal(mold.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # gunicorn 23's handler was faster
                os.waitpid(mold.pid, 0)
            self.children.remove(mold.pid)

    def reexec(self) -> None:
        """USR2: the new server's generation 0 is warmed up with what this one has served."""
        self.cfg.env_orig[VARIABLE] = "\n".join(self._served)
        super().reexec()

    def handle_usr1(self) -> None:
        """USR1: molds reopen their logs too, for those whom they fork."""
        super().handle_usr1()
        for mold in self.children.molds:
            self._signal(mold.pid, signal.SIGUSR1)

    # --- What is to be done ------------------------------------------------------------

    def manage_workers(self) -> None:
        """Carry out what the life cycle wants, until there is nothing more for now."""
        if self._cycle is None:
            super().manage_workers()
            return
        self.reap_workers()
        self._hear_molds()
        while True:
            statuses = {w.pid: self._board.status(w.seat) for w in self.children.serving}
            action = self._cycle.next_action(time.monotonic(), self.num_workers, statuses)
            if action is None:
                break
            if isinstance(action, Spawn) and not self._can_fork(action):
                break
            self._perform(action)
        self._board.wake_at(self._cycle.limit)
        if self._cycle.is_settled:
            self._dismiss_first_mold()
        self._report_workers()
        self._workers_are_forked()

    def _perform(self, action: Action) -> None:
        match action:
            case Spawn(generation):
                self._order(generation)
            case Promote(pid, generation) if worker := self.children.get(pid):
                self._promote(worker, generation)
            case Retire(pid):
                self.kill_worker(pid, signal.SIGTERM)
            case Dismiss(pid) if mold := self.children.get(pid):
                mold.channel.close()
            case Kill(pid) if self.children.get(pid):
                self._signal(pid, signal.SIGKILL)
            case Measure():
                self._measure()
            case Note(level, text):
                (self.log.warning if level == "warning" else self.log.info)("pasture: %s", text)

    def _promote(self, worker: Worker, generation: int) -> None:
        del self.WORKERS[worker.pid]
        self._board.promote(worker.seat, generation)
        if worker.channel.send("promote", generation=generation):
            self._signal(worker.pid, LOOK)
        self.log.info(
            "pasture: worker %s is to become the mold of generation %s after %s requests",
            *(worker.pid, generation, self._board.status(worker.seat).requests),
        )

    def _measure(self) -> None:
        self._cycle_or_fail().measured(self._total_pss_bytes(), time.monotonic())

    def _total_pss_bytes(self) -> int | None:
        def wait() -> None:
            time.sleep(0.02)  # most likely one of them is about to end
            self.reap_workers()

        def read() -> int | None:
            return total_pss_bytes((os.getpid(), *(worker.pid for worker in self.children)))

        total = read_again(read, _MEASURE_TRIES, between=wait)
        if total is None:
            self.log.info("pasture: total PSS cannot be read")
        return total

    def _hear_molds(self) -> None:
        for mold in self.children.molds:
            self._hear(mold)

    def _hear(self, mold: Worker) -> None:
        """Take what a mold has to say: how its promotion came out, and nothing more."""
        cycle, now = self._cycle_or_fail(), time.monotonic()
        while (message := mold.channel.receive()) and message != CLOSED:
            has_answered, mold.has_answered = mold.has_answered, True
            if message.word == "sealed" and not has_answered:
                self.log.info("pasture: mold %s: %s", mold.pid, printable(message.values["report"]))
                self._served = tuple(message.values["served"]) or self._served
                cycle.sealed(mold.pid, now)
            elif message.word == "refused" and not has_answered:
                cycle.refused(mold.pid, printable(message.values["why"]), now)
            else:
                self._disown(mold, now)

    def _disown(self, mold: Worker, now: float) -> None:
        """End a mold that says what none says: it runs other code than it was started with."""
        self.log.error("pasture: mold %s is killed: %s", mold.pid, SENT_WHAT_NO_MOLD_SENDS)
        mold.channel.close()
        if mold is self._first_mold:
            self._first_mold = None
        self._cycle_or_fail().hung(mold.pid, now, SENT_WHAT_NO_MOLD_SENDS)

    # --- Spawning ----------------------------------------------------------------------

    def spawn_worker(self) -> int | None:
        """What gunicorn calls at HUP, as often as there are to be workers."""
        if self._cycle is None:
            return super().spawn_worker()
        if self._reloading:
            self._reloading = False
            before, self._first_mold = self._first_mold, None
            try:
                self._first_mold = self._load()
            except (NotLoaded, LoadEnded, SpawnFailed):
                self._first_mold = before
                raise
            if before is not None:
                before.channel.close()
            self._cycle.reload(time.monotonic())
        self._order(0)
        return None

    def _can_fork(self, action: Spawn) -> bool:
        """Whether it is time for it, and its mold is there if that is of generation 0."""
        if not self._backoff.may_try(time.monotonic()):
            return False
        return bool(action.generation) or self._can_load()

    def _can_load(self) -> bool:
        """Whether there is a mold of generation 0, after an attempt to make one."""
        if self._first_mold is not None:
            return True
        if time.monotonic() < self._no_load_before:
            return False
        try:
            self._first_mold = self._load()
        except SpawnFailed as error:
            self._try_again_later(error)
            return False
        except NotLoaded as error:
            if not self.WORKERS:
                self._unlink_and_end(error.status)
            return self._load_again_later(error, _LOAD_AGAIN_S)
        except LoadEnded as error:
            return self._load_again_later(error, _LOAD_SOON_S)
        return True

    def _load_again_later(self, error: Exception, wait_s: float) -> Literal[False]:
        self._no_load_before = time.monotonic() + wait_s
        self.log.error("pasture: %s; next try in %.0f s", error, wait_s)
        return False

    def _dismiss_first_mold(self) -> None:
        """End it: it is not needed any more, and no process shares its memory."""
        if self._first_mold is not None:
            self._first_mold.channel.close()
            self._first_mold = None

    def _order(self, generation: int) -> None:
        """Have the mold of a generation fork a worker, and tell the life cycle."""
        cycle = self._cycle_or_fail()
        mold = self.children.mold_of(generation) if generation else self._first_mold
        try:
            worker = self._order_worker(generation, mold)
        except SpawnFailed as error:
            if error.for_now:  # nobody's fault, and the mold is as good as before
                self._try_again_later(error)
                return
            if mold is not None and error.mold_is_at_fault:
                cycle.hung(mold.pid, time.monotonic(), str(error))
            if generation == 0:
                self.log.warning("pasture: mold of generation 0 lost: %s", error)
                self._dismiss_first_mold()
            cycle.not_spawned(generation, str(error), time.monotonic())
        else:
            self._backoff.succeeded()
            cycle.spawned(worker)
            self.log.info("pasture: worker %s of generation %s", worker.pid, generation)

    # --- Ends --------------------------------------------------------------------------

    def murder_workers(self) -> None:
        """Kill workers that hang, as gunicorn does, and molds that hang."""
        super().murder_workers()
        if self._cycle is None or not self.timeout:
            return
        for mold in self.children.molds:
            if self._board.status(mold.seat).ready:
                continue  # it finishes its requests; the life cycle has the clock
            if time.monotonic() - mold.handle.tmp.last_update() > max(self.timeout, _SEAL_S):
                self._cycle.hung(mold.pid, time.monotonic())

    def handle_chld(self, *signal_and_frame: Any) -> None:
        """SIGCHLD. In gunicorn 23 a signal handler, which may run in the middle of anything."""
        if signal_and_frame and self._cycle is not None and not self._stopping:
            self.wakeup()
            return
        super().handle_chld(*signal_and_frame)

    handle_cld = handle_chld

    def _reap_all(self) -> None:
        """Wait for all that have ended: workers, molds, and orphans of either."""
        if self._cycle is None:
            super()._reap_all()
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
        if (ended := self.children.get(pid)) and ended.role != "worker":
            self._hear(ended)  # its last words, such as why it refused
        if pid == self.reexec_pid:
            self.reexec_pid = 0
        elif pid == getattr(self, "dirty_arbiter_pid", 0):
            self.handle_dirty_arbiter_exit(pid, status)
        elif worker := self._cycle_or_fail().ended(pid, status == 0, time.monotonic()):
            self._has_ended(worker, os.waitstatus_to_exitcode(status))
        else:
            self.log.debug("Reaped unknown child process (pid:%s, status:%s)", pid, status)

    def _has_ended(self, worker: Worker, code: int) -> None:
        if worker is self._first_mold:
            self._first_mold = None
        self._let_go_of(worker)
        if code < 0:
            log = self.log.error if code == -signal.SIGKILL else self.log.warning
            what = "Worker" if worker.role == "worker" else "Mold"
            log("%s (pid:%s) was sent %s!", what, worker.pid, _name(-code))
        elif code > 0:
            self.log.error("Worker (pid:%s) exited with code %s.", worker.pid, code)
        if code == self.WORKER_BOOT_ERROR:
            raise HaltServer("Worker failed to boot.", code)
        if code == self.APP_LOAD_ERROR:
            raise HaltServer("App failed to load.", code)

    def kill_worker(self, pid: int, number: int) -> None:
        """Signal a worker; forget one that a hook of the user's has waited for."""
        if self._cycle is None or is_own_child(pid):
            super().kill_worker(pid, number)
        else:
            self._reap(pid, 0)

    def _signal(self, pid: int, number: int) -> None:
        if is_own_child(pid):
            os.kill(pid, number)

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
            backlog = sum(listener.get_backlog() or 0 for listener in self.LISTENERS)
            extra = {"metric": "gunicorn.backlog", "value": backlog, "mtype": "histogram"}
            self.log.debug("socket backlog: %s", backlog, extra=extra)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
