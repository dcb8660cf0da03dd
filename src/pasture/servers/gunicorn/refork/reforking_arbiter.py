"""gunicorn's master process with reforks.

Owns the choice of gunicorn's methods that a `Refork` takes over, and whether one is made. Written
for gunicorn 23 to 27; takes the place of spawn_worker, manage_workers and reap_workers of its
Arbiter, and reports the same figures.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any, NoReturn

from pasture.errors import UnsupportedInterpreter
from pasture.fork_safety.libraries.gevent import gevent_has_patched
from pasture.interpreter import native
from pasture.log_lines import NO_REFORK, PREFIX
from pasture.proc.parent import is_own_child
from pasture.refork.shortage import Backoff
from pasture.scoreboard.recorder import recorder
from pasture.sealing.seal import seal
from pasture.servers.gunicorn import asgi, cooperative
from pasture.servers.gunicorn.arbiter import SealingArbiter
from pasture.servers.gunicorn.refork.promotion import has_answered
from pasture.servers.gunicorn.refork.refork import Refork
from pasture.servers.gunicorn.refork.spawn import HoldsHazard, LoadEnded, NotLoaded, SpawnFailed
from pasture.serving.settings import ServerSettings

_ABLE = (
    *("gunicorn.workers.sync", "gunicorn.workers.gthread"),
    *(*asgi.OF_GUNICORN, *asgi.OF_UVICORN, *cooperative.OF_GEVENT),
)


class ReforkingArbiter(SealingArbiter):
    """An arbiter whose workers become parents, unless something prevents it."""

    after_answer: Callable[[], object] | None = staticmethod(has_answered)
    _last_logged_active_worker_count: int | None

    def __init__(self, app: Any, settings: ServerSettings) -> None:
        self._refork: Refork | None = None
        self.backoff = Backoff()
        self._reloading = self._stopping = False
        super().__init__(app, settings)

    # --- Start, reload, end ------------------------------------------------------------

    def _load_application(self, asked_for: bool) -> None:
        """Leave the load to the mold of generation 0, which can be ended later."""
        if self._why_not() is not None:
            super()._load_application(asked_for)

    def start(self) -> None:
        """Prepare the refork, before the first fork."""
        super().start()
        reason, schedule = self._why_not(), self.settings.refork
        if reason is not None or schedule is None:
            self.log.warning(PREFIX + NO_REFORK, reason)
            return
        self._import_control_server()  # asyncio, which applications use, too: one copy for all
        # This process lacks the application: it shares the interpreter and the server's code.
        heap = tuple(step for step in self.settings.policy.heap if step != "gather-code")
        seal(replace(self.settings.policy, prepare=(), heap=heap))
        board = recorder.scoreboard()
        if board is None:
            self.log.warning(PREFIX + NO_REFORK, "memory for a scoreboard is missing")
            return
        self._refork = Refork(self, schedule, board)
        self._reap_all = self._refork.reap_all

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
            native().adopt_orphans()  # workers of molds; processes in between do not inherit this
        except UnsupportedInterpreter as error:
            return error.message
        except OSError as error:
            return f"the kernel does not make this process the parent of orphans: {error.strerror}"
        return None

    def reload(self) -> None:
        """HUP: start workers with new code; the old ones go on if it cannot be loaded."""
        self._reloading = True
        try:
            super().reload()
        except (HoldsHazard, NotLoaded, LoadEnded, SpawnFailed) as error:
            self.log.error("pasture: HUP failed: %s; the old workers go on", error)
        finally:
            self._reloading = False

    def stop(self, graceful: bool = True) -> None:
        """End all; a promoted worker with requests is awaited like any worker."""
        self._stopping = True
        if self._refork is None:
            super().stop(graceful)
            return
        self._refork.dismiss_molds()
        super().stop(graceful)
        self._refork.end_molds()

    def unlink_and_end(self, status: int) -> NoReturn:
        if os.getpid() != self.pid:  # in a mold: the files are the arbiter's
            sys.stdout.flush()
            os._exit(status)
        super().unlink_and_end(status)

    # --- What the refork does in place of gunicorn -------------------------------------

    def manage_workers(self) -> None:
        """Carry out what the life cycle wants, until there is nothing more for now."""
        if self._refork is None:
            super().manage_workers()
            return
        self.reap_workers()
        self._refork.go_on()
        self._report_workers()
        self._workers_are_forked()

    def try_again_later(self, error: Exception) -> None:
        """Retry later: the system lacks resources for a process."""
        wait_s = self.backoff.failed(monotonic())
        self.log.error("pasture: no new worker: %s; next try in %.0f s", error, wait_s)

    def spawn_worker(self) -> Any:
        """Called by gunicorn at HUP, once for each worker."""
        if self._refork is None:
            return super().spawn_worker()
        if self._reloading:
            self._reloading = False
            self._refork.reload()
        self._refork.order(0)
        return None

    def murder_workers(self) -> None:
        """Kill workers that hang, as gunicorn does, and molds that hang."""
        super().murder_workers()
        if self._refork is not None and self.timeout:
            self._refork.kill_molds_that_hang()

    def handle_usr1(self) -> None:
        """USR1: molds reopen their logs too, for the workers that they fork."""
        super().handle_usr1()
        if self._refork is not None:
            self._refork.signal_molds(signal.SIGUSR1)

    def handle_chld(self, *signal_and_frame: Any) -> None:
        """Handle SIGCHLD. In gunicorn 23 this is a signal handler, which may run at any moment."""
        if signal_and_frame and self._refork is not None and not self._stopping:
            self.wakeup()
            return
        super().handle_chld(*signal_and_frame)

    handle_cld = handle_chld

    def kill_worker(self, pid: int, number: int) -> None:
        """Signal a worker; forget one that a hook of the user's has reaped."""
        if self._refork is None or is_own_child(pid):
            super().kill_worker(pid, number)
        else:
            self._refork.reap(pid, 0)

    def _report_workers(self) -> None:
        """Send the figures of gunicorn's own manage_workers to statsd."""
        count = min(len(self.WORKERS), self.num_workers)
        if self._last_logged_active_worker_count != count:
            self._last_logged_active_worker_count = count
            extra = {"metric": "gunicorn.workers", "value": count, "mtype": "gauge"}
            self.log.debug("%s workers", count, extra=extra)
        if getattr(self.cfg, "enable_backlog_metric", False):
            backlog = sum(listener.get_backlog() or 0 for listener in self.LISTENERS)
            extra = {"metric": "gunicorn.backlog", "value": backlog, "mtype": "histogram"}
            self.log.debug("socket backlog: %s", backlog, extra=extra)
