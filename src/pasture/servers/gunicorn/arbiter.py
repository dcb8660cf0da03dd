"""gunicorn's master process with a seal before its forks.

Owns the order: preload; warm-up and seal before the first fork; then the control socket's thread.
Written for gunicorn 23 to 27; leans on five methods of its Arbiter: setup, spawn_worker and its
call of `cfg.pre_fork`, manage_workers, _start_control_server and _stop_control_server.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from gunicorn import sock, systemd
from gunicorn.arbiter import Arbiter
from gunicorn.errors import HaltServer

from pasture.errors import PastureError
from pasture.log_lines import NO_SEAL, PREFIX, enable
from pasture.own_values import generators
from pasture.proc.parent import is_own_child
from pasture.scoreboard.recorder import recorder
from pasture.sealing.gc_settings import begin_loading
from pasture.servers.gunicorn import asgi, cooperative
from pasture.servers.gunicorn.hooks import call_after_request, call_behind
from pasture.servers.gunicorn.worker_class import protocol_of
from pasture.servers.gunicorn.worker_user import as_worker_user
from pasture.serving import restart
from pasture.serving.moved_import import moved_import
from pasture.serving.sealer import Sealer
from pasture.serving.settings import ServerSettings
from pasture.serving.warming import host_at, warm_up_as_set
from pasture.trust.untrusted_text import complain
from pasture.warmup.protocol import Protocol

if TYPE_CHECKING:
    from pasture.serving.lifespan import SharedLifespan
    from pasture.warmup.warmup import WarmUpReport


class SealingArbiter(Arbiter):  # type: ignore[misc]
    """An arbiter that seals before it forks workers.

    Attributes:
        after_answer: called after each request of a worker, or None.
    """

    after_answer: Callable[[], object] | None = None
    pid: Any = None
    pidfile: Any = None  # gunicorn sets both after `setup`

    def __init__(self, app: Any, settings: ServerSettings) -> None:
        self.take_settings(settings)
        self._lifespan: SharedLifespan | None = None
        self._as_in_worker: cooperative.AsInWorker = nullcontext
        self._workers_forked = self._is_halting = False
        self._control_server_wanted = False
        self._reap_all: Callable[[], object] = super().reap_workers
        super().__init__(app)

    def take_settings(self, settings: ServerSettings) -> None:
        """Use these settings from now on. Call this before the first seal."""
        self.settings = settings
        self._sealer = Sealer(
            settings,
            log=self.write_to_log,
            prepare=self._without_control_server,
            stop_agents=True,
            start_again=self.start_again if settings.refork is None else None,
            as_worker=lambda: as_worker_user(self.cfg),
            # A refork seals the first mold, which ends when its workers have been replaced.
            server=lambda: self.pid or os.getpid(),
            serves=lambda: "asgi" if asgi.is_of(self.worker_class, asgi.CLASSES) else "web",
        )

    def setup(self, app: Any) -> None:
        """Set up at the start, and again at each HUP.

        Loads the application whatever `preload_app` is. The user's value stays: programs read it
        and act on it.
        """
        preload = not app.cfg.reload
        asked_for = app.cfg.preload_app
        if preload:
            begin_loading(self.settings.policy)
            # Loaded below, once the log exists.
            app.cfg.set("preload_app", False)
        super().setup(app)
        app.cfg.set("preload_app", asked_for)
        call_behind(app.cfg, "pre_fork", self._before_fork)
        call_after_request(app.cfg, self.settings.memory_limit, self.after_answer)
        asgi.watch_requests(app.cfg, self.after_answer)
        if not preload:
            self.log.warning(PREFIX + NO_SEAL, "--reload loads the application in each worker")
            return
        self._load_application(asked_for)

    def _load_application(self, asked_for: bool) -> None:
        if self._sealer.report is None and not asked_for:
            self.log.info("pasture: preload is on: HUP does not load new code, USR2 does")
        with moved_import(
            self.settings,
            self._start_plain,
            log=self.write_to_log,
            is_asked_for=asked_for or self._sealer.report is not None,  # at HUP it exists already
            signals=(*self.SIGNALS, signal.SIGCHLD),
        ):
            application = self.load_as_in_worker()
        asgi.import_server(self.worker_class)
        if self.settings.lifespan == "once" and self._lifespan is None:
            self._start_once(application)

    def load_as_in_worker(self) -> Any:
        """Import the application as a worker would, with a patched standard library."""
        if self._as_in_worker is nullcontext:
            self._as_in_worker = cooperative.patch_as(self.worker_class)
        own = nullcontext() if self.cfg.preload_app else as_worker_user(self.cfg)
        with self._as_in_worker(), generators.observed(not self.cfg.preload_app), own:
            application = self.app.wsgi()
        enable(getattr(self.log, "error_log", None))
        return application

    def _start_once(self, application: Any) -> None:
        """Start an ASGI application here; from now on workers serve the started one."""
        if protocol_of(self.worker_class, application) is not Protocol.ASGI:
            self.log.warning(
                "pasture: the application is not an ASGI application: it has no lifespan"
            )
            return
        try:
            from pasture.serving.lifespan import start_once  # imported now: it is sealed in

            self._lifespan = start_once(
                application, strict=self.settings.strict, log=self.write_to_log
            )
        except PastureError as error:
            self.unlink_and_end(complain(error))
        self.app.callable = self._lifespan.wrap(application)

    def stop(self, graceful: bool = True) -> None:
        """End the workers; then the application, if it was started here."""
        self._is_halting = True
        super().stop(graceful)
        if self._lifespan is not None:
            self._lifespan.end()

    def reap_workers(self) -> None:
        """Reap workers. The first that could not boot halts the server: gunicorn would raise for
        each.
        """
        while True:
            try:
                self._reap_all()
                return
            except HaltServer:
                # gunicorn 23 raises first: it would wait for the worker, and signal its pid.
                for pid in [pid for pid in self.WORKERS if not is_own_child(pid)]:
                    self.WORKERS.pop(pid).tmp.close()
                if not self._is_halting:
                    self._is_halting = True
                    raise

    def manage_workers(self) -> None:
        """Fork missing workers, then start the control socket if it had to wait for that."""
        super().manage_workers()
        self._workers_are_forked()

    def _workers_are_forked(self) -> None:
        self._workers_forked = True
        if self._control_server_wanted:
            self._control_server_wanted = False
            self._start_control_server()

    def _start_control_server(self) -> None:
        # gunicorn 25.1 starts its thread before the first fork. A thread may hold any lock and
        # change any structure: it must not run while the heap is sealed.
        if self._as_in_worker is nullcontext:
            if self._workers_forked:
                super()._start_control_server()
            else:
                self._control_server_wanted = True
        # It would be a greenlet here, and run only while the application's code does.
        elif not (getattr(self.cfg, "control_socket_disable", True) or self._workers_forked):
            self.log.warning(
                "pasture: no control socket: its thread does not run in a process that %s has "
                "patched; --no-control-socket leaves out this line",
                self.cfg.worker_class_str,
            )

    def _before_fork(self, worker: Any) -> None:
        if not self.cfg.reload:
            self.seal_or_end(worker)
        recorder.expect_worker()

    def seal_or_end(self, worker: Any = None) -> None:
        """Seal, if this is the first fork or another seal is worth while."""
        probe: tuple[Callable[[Any], None], ...] = ()
        if self.settings.probes:
            from pasture.servers.gunicorn import rehearsal  # imported now: it is sealed in

            probe = partial(rehearsal.play, self, worker), partial(rehearsal.reaped, self, worker)
        try:
            with self._as_in_worker(False):
                self._sealer.before_fork(self._warm_up, *probe)
        except PastureError as error:
            # No worker is forked yet. gunicorn would take an exception for a worker's.
            self.unlink_and_end(complain(error))

    def _start_plain(self, why: str) -> None:
        """Start gunicorn again in this process, before it has taken its listeners."""
        environ = dict(self.cfg.env_orig)
        if self.cfg.daemon:
            restart.went_into_background()
            environ.setdefault("GUNICORN_FD", "")  # it is in the background already
        restart.again(why, environ=environ)

    def start_again(self, why: str, *, plain: bool = True) -> None:
        """Start gunicorn again in this process, with the listeners: no connection is lost.

        Returns if that is impossible. gunicorn looks for inherited listeners at the numbers of
        fd://N and of systemd (sd_listen_fds(3)), which it has closed. It looks for its own at the
        numbers of an older master, which this process replaces at once.
        """
        if self.cfg.daemon:
            restart.went_into_background()
        if not restart.is_possible():
            return
        if self._lifespan is not None:
            self._lifespan.end()
        if getattr(self, "dirty_arbiter_pid", 0):
            os.kill(self.dirty_arbiter_pid, signal.SIGTERM)
        environ = dict(self.cfg.env_orig)
        listeners = [listener.fileno() for listener in self.LISTENERS]
        numbers = [one for one in self.cfg.address if isinstance(one, int)]
        if self.systemd:
            first = systemd.SD_LISTEN_FDS_START
            numbers += range(first, first + len(listeners) - len(numbers))
        elif listeners and not numbers:
            numbers = listeners
            environ["GUNICORN_PID"] = str(self.master_pid or os.getpid())
            environ["GUNICORN_FD"] = ",".join(map(str, listeners))
        elif self.cfg.daemon:
            environ["GUNICORN_FD"] = ""  # it is in the background already
        restart.again(
            why,
            plain=plain,
            environ=environ,
            directory=self.START_CTX["cwd"],
            kept=dict(zip(numbers, listeners, strict=False)),
        )

    def write_to_log(self, level: int, line: str) -> None:
        self.log.log(level, "pasture: %s", line)

    def unlink_and_end(self, status: int) -> NoReturn:
        if self.pidfile is not None:
            self.pidfile.unlink()
        sock.close_sockets(self.LISTENERS, self.cfg.reuse_port is False)
        sys.stdout.flush()
        os._exit(status)

    @contextmanager
    def _without_control_server(self) -> Iterator[None]:
        """Stop the control socket's thread in the `with` block, while the heap is changed."""
        if self._sealer.report is None:  # the thread was not started yet
            self._import_control_server()
            yield
            return
        running = getattr(self, "_control_server", None) is not None
        if running:
            self._stop_control_server()
        yield
        if running:
            self._start_control_server()

    def _import_control_server(self) -> None:
        """Import what the control socket will import, except before the library is patched."""
        disabled = getattr(self.cfg, "control_socket_disable", True)
        if not disabled and not cooperative.is_cooperative(self.worker_class):
            importlib.import_module("gunicorn.ctl.server")

    def _warm_up(self) -> WarmUpReport:
        application = self.app.wsgi()
        protocol = protocol_of(self.worker_class, application)
        if not isinstance(protocol, Protocol):
            from pasture.warmup.warmup import WarmUpReport

            return WarmUpReport(refused=protocol)
        return warm_up_as_set(
            application,
            self.settings,
            protocol=protocol,
            host=self._host(),
            log=self.write_to_log,
            shared=self._lifespan,
        )

    def _host(self) -> str:
        address = self.cfg.address[0]
        return host_at(*address[:2]) if isinstance(address, tuple) else "localhost"
