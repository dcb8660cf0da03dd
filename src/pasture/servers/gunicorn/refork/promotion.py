"""A gunicorn worker that may become a mold: the worker's side of its promotion.

A promotion starts like a graceful end: the worker's own main loop finishes its requests as it does
at TERM, and returns. Written for the workers `sync` and `gthread` of gunicorn 23 to 27, whose `run`
returns once `alive` is False; `asgi_promotion` and `gevent_promotion` are for those with a loop.
"""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import FrameType
from typing import Any

from gunicorn.workers.base import Worker

from pasture.fork_safety import close, survey
from pasture.interpreter import native
from pasture.proc.parent import end_with_parent
from pasture.reasons import Hazard
from pasture.refork.channel import Channel
from pasture.scoreboard.board import Row
from pasture.serving import learned

LOOK = signal.SIGURG
"""Signal to a worker after a message. A process without the handler ignores it."""

WAKE = signal.SIGCHLD
"""Signal to the arbiter, which then checks its children and their entries."""

_current: Promotable | None = None


class Promotable:
    """The worker of this process, and the generation that it was promoted to, or None."""

    def __init__(self, worker: Any, channel: Channel, row: Row) -> None:
        self.generation: int | None = None
        self.channel, self.row = channel, row
        self._worker = worker
        self._woken_at = 0
        self._kept: list[int] = []
        self._listeners: list[Any] = worker.sockets
        self._run: Callable[[], None] = worker.run
        worker.run = self.run

    def run(self) -> None:
        """Replaces the worker's own `run`, the last step of `init_process`."""
        global _current
        _current = self
        signal.signal(LOOK, self._look)
        signal.siginterrupt(LOOK, False)
        signal.signal(signal.SIGTERM, self._end)
        signal.siginterrupt(signal.SIGTERM, False)
        end_with_parent(self._worker.ppid, signal.SIGTERM)
        if not self._worker.alive:  # the arbiter has ended already
            return
        self.begin()
        self._run()
        self.row.show_serving(False)

    def begin(self) -> None:
        """Report that this worker serves, right before the main loop."""
        self.row.show_serving(True)
        self.wake_arbiter()

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._worker.handle_exit(number, frame)
        if os.getppid() != self._worker.ppid:
            # No arbiter is left to end a worker that hangs.
            signal.alarm(max(1, int(self._worker.cfg.graceful_timeout)))

    def _look(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: a message has arrived. After a promotion the mold reads messages."""
        while self.generation is None:
            message = self.channel.receive()
            if message is None or message.word == "closed":
                return
            if message.word == "promote":
                self.generation = int(message.values["generation"])
                # Threaded workers close their listeners at the end of `run`.
                self._kept = [os.dup(listener.fileno()) for listener in self._worker.sockets]
                self.finish()

    def finish(self) -> None:
        """Have the main loop finish its requests and return. Called in a signal handler."""
        self._worker.handle_exit(signal.SIGTERM, None)

    def has_answered(self) -> None:
        """Called after each request, once it has been counted."""
        if close.unsafe_reason() is not None:
            self.row.show_unsafe()
        limit = self.row.limit
        if self.row.requests >= limit != self._woken_at:
            self._woken_at = limit
            self.wake_arbiter()

    def wake_arbiter(self) -> None:
        """Have the arbiter look now rather than within a second."""
        try:
            os.kill(self._worker.ppid, WAKE)
        except OSError:
            pass  # another user's, or gone

    def become_mold(self) -> AbstractContextManager[None]:
        """The context of a mold's life; the workers that it forks leave it."""
        return nullcontext()

    def handle_end(self, number: int, frame: FrameType | None) -> None:
        """Signal handler of a mold, for TERM."""
        Worker.handle_quit(self._worker, number, frame)

    def leave_service(self) -> None:
        """Close what the main loop leaves open, except listeners. After `run`."""
        global _current
        learned.stop()
        _current = None
        signal.set_wakeup_fd(-1)
        for number in self._worker.PIPE:
            os.close(number)
        self._worker.PIPE = []
        threads = getattr(self._worker, "tpool", None)
        if threads is not None:
            threads.shutdown(wait=True)
            # A joined thread may still hold its state for a moment.
            wait_for(lambda: native().python_threads() <= threading.active_count())
        if hasattr(tempfile, "_name_sequence"):
            # 2.5 KB from this worker's heartbeat file, made in its mold: a seal would keep it in
            # this and each later generation. `tempfile` makes it again.
            tempfile._name_sequence = None
        for listener, number in zip(self._listeners, self._kept, strict=True):
            if listener.sock is None or listener.sock.fileno() == -1:
                listener.sock = socket.socket(fileno=number)
            else:
                os.close(number)

    def hazards(self) -> tuple[Hazard, ...]:
        """Hazards of a fork that are open or run in this process."""
        return survey.survey()


def take_signals(worker: Any) -> None:
    """Give a mold the signal handlers of a plain worker, whatever its loop has set."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for number, handler in {
        signal.SIGQUIT: partial(Worker.handle_quit, worker),
        signal.SIGINT: partial(Worker.handle_quit, worker),
        signal.SIGUSR1: partial(Worker.handle_usr1, worker),
        signal.SIGABRT: partial(Worker.handle_abort, worker),
    }.items():
        signal.signal(number, handler)


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait at most a second for threads that end by themselves."""
    deadline = time.monotonic() + 1.0
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.001)


def has_answered() -> None:
    """Note that this process's worker has answered one more request, if it may become a mold."""
    if _current is not None:
        _current.has_answered()
