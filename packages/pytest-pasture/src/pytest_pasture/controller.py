"""The controller's side of the mold: its fork, its orders, and its end.

A worker that the mold does not fork is a new interpreter at the same socket, into which execnet
loads what it always loads: plain xdist, also in the midst of a run.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import execnet
import pytest

import pasture
from pasture.sealing.policy import find_policy
from pytest_pasture import mold
from pytest_pasture.control import Channel, Declined, Forked, Kept, Sealed, SetsUp, Wanted
from pytest_pasture.keeper import Keeper
from pytest_pasture.lookout import LookOut

STOP_LIMIT_S = 5.0
"""Timeout for the end of a mold without orders, unless it has set up fixtures."""

BEFORE_THE_MOLD = replace(find_policy("seal"), name="pytest-pasture", prepare=())
"""The controller and the mold share objects that were loaded before: its own seal would write to
them. Connections are the mold's to close.
"""

START_LIMIT_S = 10.0
"""How long a plain worker may take to start before the next one is started, too."""

_PLAIN = """\
import sys
if {path!r} not in sys.path: sys.path.insert(0, {path!r})
from execnet.gateway_base import os, serve, init_popen_io, get_execmodel
os.close({started})
serve(init_popen_io(get_execmodel({model!r})), id={id!r})
"""


class Process:
    """A process that need not be a child of this one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._descriptor: int | None = os.pidfd_open(pid)
        except OSError:
            self._descriptor = None  # it has ended

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended."""
        if self._descriptor is None:
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def signal(self, number: int) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self._descriptor, number)

    def signal_group(self, number: int) -> None:
        """Signal the process and those that it has started."""
        if not self.wait(0):
            with suppress(OSError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)


class Request:
    """A worker, from the moment that xdist wants it."""

    process: Process | subprocess.Popen[bytes] | None = None
    plain = False  # an interpreter of its own

    def __init__(self, id: str, ends: tuple[socket.socket, ...]) -> None:
        self.id = id
        self.ends = ends  # the worker's: execnet's, and that for events
        self.settled = threading.Event()


class MoldProcess:
    """The process that collects, seen from the controller."""

    def __init__(
        self,
        config: pytest.Config,
        lookout: LookOut,
        report: Callable[[str], None],
        keeper: Keeper | None,
    ) -> None:
        self.report = report
        self.is_apart = keeper is not None  # from the terminal
        self.requests: dict[str, Request] = {}
        self.sealed: Sealed | None = None
        self.reason: str | None = None  # why workers are plain ones
        self.stop_limit_s: float | None = STOP_LIMIT_S
        self.started = time.perf_counter()
        self._lock = threading.Lock()
        self._closing = False
        self._listener: threading.Thread | None = None
        self.why_again: str | None = None  # why a kept process could not serve
        kept = keeper.place.greet(keeper.hello) if keeper is not None else None
        if isinstance(kept, tuple):
            self.control, pid = kept
        else:
            self.why_again = kept
            self.control, theirs = Channel.pair()
            pid = self._fork(config, theirs, lookout, keeper)
            theirs.close()
        self.process = Process(pid)

    def _fork(
        self, config: pytest.Config, control: Channel, lookout: LookOut, keeper: Keeper | None
    ) -> int:
        """The pid of the mold; a kept one is not a child of this process."""
        sys.stdout.flush()
        sys.stderr.flush()
        ours, theirs = os.pipe()
        if config.pluginmanager.hasplugin("debugging"):
            import pdb  # noqa: F401 - pytest does once it is configured, here and in the mold
        pasture.seal(BEFORE_THE_MOLD)
        pid = os.fork()
        if pid and keeper is None:
            os.close(ours)
            os.close(theirs)
            return pid
        if pid:
            os.close(theirs)
            with os.fdopen(ours, "rb") as end:
                sent = end.read()
            os.waitpid(pid, 0)
            return int(sent)
        if keeper is not None:
            os.setsid()
            if pid := os.fork():
                os.write(theirs, str(pid).encode())
                os._exit(0)
            for descriptor in keeper.inherited:
                os.close(descriptor)
        os.close(ours)
        os.close(theirs)
        self.control.close()
        mold.run(config, control, lookout, keeper)

    def request(self, id: str, *ends: socket.socket) -> Request:
        """Note that a worker will be wanted."""
        request = self.requests[id] = Request(id, ends)
        return request

    def want(self, request: Request, workerinput: dict[str, Any], basetemp: str | None) -> None:
        """Fork a worker, as soon as tests are collected."""
        with self._lock:
            if self.reason is None:
                try:
                    message = Wanted(request.id, workerinput, basetemp)
                    self.control.send(message, *(end.fileno() for end in request.ends))
                except Exception as error:  # too large a message, or one that cannot be pickled
                    self._decline(request, f"{type(error).__name__}: {error}")
            else:
                self._start_plain(request)
        if self._listener is None:
            self._listener = threading.Thread(target=self._listen, name="pytest-pasture")
            self._listener.daemon = True
            self._listener.start()

    def _listen(self) -> None:
        while (message := self.control.receive()) is not None:
            with self._lock:
                self._take(message)
        with self._lock:
            if not self._closing:
                self._decline_all("the collecting process has ended")

    def _take(self, message: object) -> None:
        match message:
            case Sealed():
                self.sealed = message
            case SetsUp():
                self.stop_limit_s = None
            case Kept(pid):
                self.process = Process(pid)
            case Forked(id, pid):
                request = self.requests[id]
                request.process = Process(pid)
                self._settle(request)
            case Declined(reason, None, interrupted):
                self._decline_all(reason, start=not interrupted)
            case Declined(reason, id):
                self._decline(self.requests[str(id)], reason)

    def _decline_all(self, reason: str, *, start: bool = True) -> None:
        if self.reason is None:
            self.reason = reason
            if start:
                self.report(reason)
        for request in self.requests.values():
            if not request.settled.is_set():
                if start:
                    self._start_plain(request)
                else:
                    self._settle(request)

    def _decline(self, request: Request, reason: str) -> None:
        self.report(f"{reason}: {request.id}")
        self._start_plain(request)

    def _start_plain(self, request: Request) -> None:
        if not self._closing:
            request.plain = True
            path = str(Path(execnet.__file__).parent.parent)
            ours, started = os.pipe()
            names = {"path": path, "id": f"{request.id}-worker", "started": started}
            code = _PLAIN.format(**names, model="main_thread_only")
            words = [sys.executable, "-u", "-c", code]
            end = request.ends[0].fileno()
            try:
                request.process = subprocess.Popen(words, stdin=end, stdout=end, pass_fds=[started])
            except OSError as error:  # xdist sees the connection closed
                self.report(f"{request.id} cannot be started: {error}")
            os.close(started)
            # As xdist starts them, one after the other: an error in all of them at the same moment
            # has another exit code there, too.
            select.select([ours], [], [], START_LIMIT_S)
            os.close(ours)
        self._settle(request)

    def _settle(self, request: Request) -> None:
        for end in request.ends:
            end.close()
        request.settled.set()

    def interrupt(self) -> None:
        """Send workers the interrupt that the terminal does not send them."""
        if self.is_apart:
            for request in list(self.requests.values()):
                if not request.plain and isinstance(request.process, Process):
                    request.process.signal_group(signal.SIGINT)

    def stop(self) -> None:
        """End the mold, after its workers; none that is not forked yet will be."""
        with self._lock:
            self._closing = True
            for request in self.requests.values():
                if not request.settled.is_set():
                    self._settle(request)
        if self.sealed is None:
            self.process.signal(signal.SIGINT)
        with suppress(OSError):
            self.control.socket.shutdown(socket.SHUT_RDWR)
        if not self.process.wait(self.stop_limit_s):
            self.process.kill()
        with suppress(ChildProcessError):
            os.waitpid(self.process.pid, 0)
        if self._listener is not None:
            self._listener.join(STOP_LIMIT_S)
        self.control.close()
