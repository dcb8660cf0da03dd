"""A gunicorn worker for ASGI that may become a mold: the end of its event loop, and its proof.

The worker stops accepting, finishes its requests, ends the application's lifespan and closes the
loop. Only then does it become a mold, whose workers make their own loops and start the application.
Written for the worker `asgi` of gunicorn 24 to 27 and those of uvicorn 0.30 to 0.54; leans on
`Server.servers` and `Server.should_exit` of uvicorn's, whose method handles TERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
import weakref
from types import FrameType
from typing import Any

from pasture.fork_safety import closed_loop
from pasture.fork_safety.event_loop import name_of_task
from pasture.log_lines import some
from pasture.reasons import Hazard
from pasture.servers.gunicorn.refork.promotion import Promotable, take_signals, wait_for

_MAX_NAMES = 5
_OF_SERVERS = (" of asyncio", " of gunicorn", " of uvicorn", " of uvicorn_worker")
_LIFESPANS = ("the task LifespanOn.main()", "the task LifespanManager._run_lifespan()")
_SETTLE_S = 0.25
"""Time between the last accept and the end of idle connections, which uvicorn closes unread."""


class LoopPromotable(Promotable):
    """A worker that serves on an event loop of asyncio's or of uvloop's."""

    _loop: weakref.ref[asyncio.AbstractEventLoop] | None = None

    def begin(self) -> None:
        """Wait for the first heartbeat: the application has started then."""
        self._worker.notify = self._first_beat

    def _first_beat(self) -> None:
        del self._worker.notify
        self._worker.notify()
        self._loop = weakref.ref(asyncio.get_running_loop())
        self.has_started()

    def has_started(self) -> None:
        """Called on the loop, as soon as the worker serves."""
        super().begin()

    def finish(self) -> None:
        signal.signal(signal.SIGALRM, self._is_late)
        cfg = self._worker.cfg
        # Before the arbiter kills it, so that the log can name what it waited for.
        wait_s = float(cfg.graceful_timeout) + max(1.0, float(cfg.timeout or 30) / 2)
        signal.setitimer(signal.ITIMER_REAL, wait_s)
        self.end_main_loop()

    def end_main_loop(self) -> None:
        super().finish()

    def _is_late(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: the worker does not end in time and cannot become a mold."""
        loop = self._loop() if self._loop is not None else None
        self.channel.send("refused", why=f"its worker does not end: {waits_for(loop)}")
        self.wake_arbiter()
        time.sleep(1.0)  # so that the message is read first
        os._exit(0)

    def leave_service(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        worker = self._worker
        self._take_signals_back()
        for name in ("loop", "lifespan"):  # gunicorn's worker keeps them
            if hasattr(worker, name):
                setattr(worker, name, None)
        if hasattr(worker, "servers"):
            worker.servers = []
        asyncio.set_event_loop(None)
        super().leave_service()
        # Executors' threads are asked to end when the loop is closed, and end a moment later.
        wait_for(lambda: threading.active_count() <= 1)

    def _take_signals_back(self) -> None:
        """Remove the loop's handlers, which asyncio removes and uvloop leaves."""
        loop = self._loop() if self._loop is not None else None
        for number in signal.valid_signals():
            if loop is not None and getattr(signal.getsignal(number), "__self__", None) is loop:
                signal.signal(number, signal.SIG_DFL)
        take_signals(self._worker)

    def hazards(self) -> tuple[Hazard, ...]:
        left = () if self._loop is None else closed_loop.survey(self._loop)
        return (*super().hazards(), *left)


def waits_for(loop: asyncio.AbstractEventLoop | None) -> str:
    """Tasks of a loop and threads that have not ended, in words. Safe in a signal handler."""
    tasks = asyncio.all_tasks(loop) if loop is not None and not loop.is_closed() else ()
    names = [name for task in tasks if not (name := name_of_task(task)).endswith(_OF_SERVERS)]
    if any(name_of_task(task).startswith(_LIFESPANS) for task in tasks):
        names.insert(0, "the application's lifespan")
    own = threading.main_thread()
    names += [f"thread {t.name}" for t in threading.enumerate() if t is not own and not t.daemon]
    return some(names, _MAX_NAMES) or "a request, or code without an await"


class UvicornPromotable(LoopPromotable):
    """A worker of uvicorn's, which ends at TERM and ignores `alive`."""

    _server: Any = None
    _ends = False

    def has_started(self) -> None:
        server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        if hasattr(server, "should_exit"):  # else the application has a handler of its own
            self._server = server
            signal.signal(signal.SIGTERM, self._end)
            signal.siginterrupt(signal.SIGTERM, False)
        super().has_started()

    def finish(self) -> None:
        config = self._worker.config
        if config.timeout_graceful_shutdown is None:
            # An endless response is cut off; else its worker would be killed later.
            config.timeout_graceful_shutdown = self._worker.cfg.graceful_timeout
        super().finish()

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self._loop is None:
            sys.exit(0)  # uvicorn does not handle the signal yet
        super()._end(number, frame)
        self.end_main_loop()

    def leave_service(self) -> None:
        self._server = None  # it refers to all server objects
        super().leave_service()

    def end_main_loop(self) -> None:
        if self._ends:
            return
        self._ends = True
        loop = self._loop() if self._loop is not None else None
        if self._server is None:
            signal.raise_signal(signal.SIGTERM)
        elif loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._stop_accepting, loop)

    def _stop_accepting(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop accepting connections; those that are accepted get time to send their request."""
        if isinstance(loop, asyncio.BaseEventLoop):
            # The sockets stay open: asyncio would drop connections that it has just accepted.
            for listener in (one for server in self._server.servers for one in server.sockets):
                loop.remove_reader(listener.fileno())
        else:
            for listener in self._worker.sockets:
                # libuv closes the file. uvicorn would close its number again, a moment later.
                listener.sock.detach()
                listener.sock = None
            for server in self._server.servers:
                server.close()
        loop.call_later(_SETTLE_S, setattr, self._server, "should_exit", True)
