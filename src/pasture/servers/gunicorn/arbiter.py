"""gunicorn's master process with a seal before its forks.

Owns when things happen: preload, then, before the first fork, warm-up and seal, and only
then the control socket's thread. Everything else is gunicorn's. Written for gunicorn 23 to
27; leans on five methods of its Arbiter: setup, spawn_worker's call of `cfg.pre_fork`,
manage_workers, _start_control_server and _stop_control_server.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, NoReturn

from gunicorn import sock
from gunicorn.arbiter import Arbiter

from pasture import private_files
from pasture.errors import PastureError
from pasture.heap import growth
from pasture.heap.loading import begin_loading
from pasture.heap.report import SealReport
from pasture.heap.seal import seal
from pasture.heap.warmup import Answer, WarmUpReport, warm_up
from pasture.metrics import recorder
from pasture.servers.complaint import complain
from pasture.servers.environment import ServerSettings
from pasture.servers.gunicorn.hooks import call_after_request, call_before_fork

_COOPERATIVE = ("gevent", "eventlet")


class SealingArbiter(Arbiter):  # type: ignore[misc]
    """An arbiter that takes a policy's steps before it forks workers."""

    def __init__(self, app: Any, settings: ServerSettings) -> None:
        self._settings = settings
        self._report: SealReport | None = None
        self._unfrozen_then = 0
        self._workers_forked = False
        self._control_server_wanted = False
        recorder.arm()
        super().__init__(app)

    def setup(self, app: Any) -> None:
        """Load the configuration's consequences: at the start, and again at each HUP."""
        preload = not app.cfg.reload
        asked_for = app.cfg.preload_app
        if preload:
            begin_loading(self._settings.policy)
            # Loaded below, once the log is there to say so.
            app.cfg.set("preload_app", False)
        super().setup(app)
        call_before_fork(app.cfg, self._before_fork)
        if self._settings.memory_limit is not None or recorder.is_wanted():
            call_after_request(app.cfg, self._settings.memory_limit)
        if not preload:
            self.log.warning("pasture: --reload loads the application in each worker: no seal")
            return
        app.cfg.set("preload_app", True)
        self._load_application(asked_for)

    def _load_application(self, asked_for: bool) -> None:
        if self._report is None and not asked_for:
            self.log.info("pasture: preload is on: HUP does not load new code, USR2 does")
        self.app.wsgi()

    def manage_workers(self) -> None:
        """Fork what is missing, then start the control socket if it had to wait for that."""
        super().manage_workers()
        self._workers_are_forked()

    def _workers_are_forked(self) -> None:
        self._workers_forked = True
        if self._control_server_wanted:
            self._control_server_wanted = False
            self._start_control_server()

    def _start_control_server(self) -> None:
        # gunicorn 25.1 starts its thread before the first fork. A thread that may hold
        # any lock, and change any structure, must not run while the heap is sealed.
        if self._workers_forked:
            super()._start_control_server()
        else:
            self._control_server_wanted = True

    def _before_fork(self) -> None:
        """Seal, if this is the first fork or the seal is worth a new round."""
        if not self.cfg.preload_app:
            return
        if self._report is None:
            self._import_control_server()
            self._seal_once(warm=True)
        elif self._report.sealed and self._growth().is_worth_a_round:
            self.log.info("pasture: %s new objects since the seal", self._growth().objects)
            self._seal_without_control_server()

    def _growth(self) -> growth.Growth:
        return growth.Growth(self._unfrozen_then, growth.unfrozen_objects())

    def _seal_once(self, warm: bool) -> None:
        wanted = warm and self._settings.policy.warms_up and bool(self._settings.warm_up)
        try:
            report = seal(
                self._settings.policy,
                warm_up=self._warm_up if wanted else None,
                strict=self._settings.strict and self._report is None,
            )
        except PastureError as error:
            # Nothing is forked yet. gunicorn would take an exception for a worker's.
            self._unlink_and_end(complain(error))
        self._report = report
        self._unfrozen_then = growth.unfrozen_objects()
        log = self.log.info if report.sealed or not self._settings.policy.heap else self.log.warning
        log("pasture: %s", report)
        self._write(report)

    def _unlink_and_end(self, status: int) -> NoReturn:
        if self.pidfile is not None:
            self.pidfile.unlink()
        sock.close_sockets(self.LISTENERS, self.cfg.reuse_port is False)
        sys.stdout.flush()
        os._exit(status)

    def _seal_without_control_server(self) -> None:
        running = getattr(self, "_control_server", None) is not None
        if running:
            self._stop_control_server()
        self._seal_once(warm=False)
        if running:
            self._start_control_server()

    def _import_control_server(self) -> None:
        """Bring in what the control socket will import, so that it is sealed as well.

        Not for workers that patch the standard library: it must not be loaded before.
        """
        disabled = getattr(self.cfg, "control_socket_disable", True)
        cooperative = any(name in self.cfg.worker_class_str for name in _COOPERATIVE)
        if not disabled and not cooperative:
            importlib.import_module("gunicorn.ctl.server")

    def _warm_up(self) -> WarmUpReport:
        report = warm_up(
            self.app.wsgi(),
            self._settings.warm_up.requests,
            headers=self._settings.warm_up.headers,
            host=self._host(),
            on_answer=self._log_answer,
        )
        counts = report.counts
        self.log.info("pasture: warm-up: %d requests, %d failed", *counts.values())
        return report

    def _log_answer(self, answer: Answer) -> None:
        log = self.log.warning if answer.failed else self.log.debug
        log("pasture: warm-up: %s in %.3f s", answer, answer.seconds)

    def _host(self) -> str:
        """The host that a request from this machine would name."""
        address = self.cfg.address[0]
        if not isinstance(address, tuple):
            return "localhost"
        name, port = address[:2]
        return f"{name if name not in ('', '0.0.0.0', '::') else 'localhost'}:{port}"

    def _write(self, report: SealReport) -> None:
        path = self._settings.report_file
        if path is None:
            return
        try:
            private_files.write(path, json.dumps(report.as_dict()))
        except OSError as error:
            self.log.warning("pasture: the report cannot be written: %s", error)
