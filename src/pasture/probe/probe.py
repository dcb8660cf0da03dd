"""The parent's side of the probe: it forks, listens, and ends the child when its time is over.

Owns the child, from its fork to its reaping. Invariants: the probe and all processes of its group
are reaped before `probe` returns or raises. A handler of SIGCHLD does not see its end: a server
would take it for a worker.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from pasture.log_lines import log
from pasture.probe import replay
from pasture.probe.expectation import LIMIT_S, Expectation
from pasture.probe.replay import Replay
from pasture.proc.parent import end_with_parent
from pasture.proc.stat import PROBE_NAME
from pasture.warmup.guard import Guard
from pasture.warmup.interrupts import ENDING
from pasture.warmup.warmup import WarmUpReport

Play = Callable[[Replay], None]
"""Starts the application as a worker would, in the child, and calls the replay with it."""

_GRACE_S = 3.0  # after a step's limit: C code that never returns to Python ignores the alarm
_LEAVING_S = 5.0  # for the end of a worker
_ENDING_S = 2.0  # for the end of a worker if the server is asked to end
_ENDING_LOOK_S = 0.02
_LOOK_S = 0.2
_STACKS_S = 0.3
_STDERR = 2
_DUMP = signal.SIGRTMAX - 5


@dataclass(slots=True)
class ProbeReport:
    answered: int = 0  # number of requests that were answered without a failure
    failure: str | None = None  # the step that failed, and how; else None
    # Answers with another status than the parent's, in words. They are not failures.
    others: list[str] = field(default_factory=list)
    seconds: float = 0.0
    was_killed: bool = False  # whether it was killed during its end


def probe(
    served: WarmUpReport,
    expected: Sequence[Expectation],
    play: Play,
    *,
    reaped: Callable[[int], object] = lambda pid: None,
) -> ProbeReport:
    """Fork a process that serves requests as a worker would.

    In the parent, after the seal. `reaped` is called with the pid of the process once it is gone.

    Raises:
        OSError: the process cannot be forked.
        KeyboardInterrupt: the process was asked to end, and the probe was ended.
    """
    begin = perf_counter()
    parent = os.getpid()
    listener = _Listener(begin + LIMIT_S)

    # A signal that asks the process to end must find the guard, which ends the probe.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        ends = os.pipe()
        with os.fdopen(ends[0], "rb", 0) as reader, os.fdopen(ends[1], "wb", 0) as writer:
            with _without_handler_of_sigchld() as handler:
                _flush()
                pid = os.fork()
                if pid == 0:  # without the parent's exit
                    try:
                        reader.close()
                        _prepare_child(parent, mask, handler)
                        Replay(served, expected, writer.fileno(), begin + LIMIT_S).run(play)
                    except BaseException:
                        log.exception("probe")
                    finally:
                        _flush()
                        os._exit(0)
                writer.close()
                try:
                    _listen(pid, reader.fileno(), listener, mask)
                finally:
                    reaped(pid)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    listener.report.seconds = perf_counter() - begin
    return listener.report


def _listen(pid: int, pipe: int, listener: _Listener, mask: set[Any]) -> None:
    try:
        with Guard(step_s=0, total_s=0) as guard:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            try:
                guard.run("probe", lambda: _hear(pid, pipe, listener))
            except KeyboardInterrupt:  # the probe ends its own processes
                with contextlib.suppress(OSError):
                    os.kill(pid, replay.END_NOW)
                stop_at_s = perf_counter() + _ENDING_S
                while perf_counter() < stop_at_s and not _has_ended(pid):
                    time.sleep(_ENDING_LOOK_S)
                raise
    finally:
        listener.ended(_end(pid))


def _hear(pid: int, pipe: int, listener: _Listener) -> None:
    """Handle events until the probe has ended, or its time is over."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while perf_counter() < listener.deadline_s:
        if poll.poll(_LOOK_S * 1000):
            data = os.read(pipe, 1 << 16)
            if not data:
                return
            listener.take(data)
        elif _has_ended(pid):  # a process of the probe's has the pipe's other end, too
            return
    if listener.is_over:
        listener.report.was_killed = True
        return
    listener.fail("hung in C code; standard error has its stacks")
    with contextlib.suppress(OSError):
        os.kill(pid, _DUMP)
    time.sleep(_STACKS_S)


class _Listener:
    """The parent's state of a probe, by its events.

    Attributes:
        deadline_s: of `perf_counter`, when the probe is killed.
        is_over: whether only the worker's end is left, whose events do not count.
    """

    def __init__(self, deadline_s: float) -> None:
        self.report = ProbeReport()
        self.deadline_s = deadline_s
        self.is_over = False
        self._rest = b""
        self._step = "its start"

    def take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self.is_over:
                return
            match json.loads(line):
                case [replay.BEGIN, step, limit_s]:
                    self._step = step
                    self.deadline_s = perf_counter() + limit_s + _GRACE_S
                case [replay.ANSWER, differs]:
                    self.report.answered += 1
                    self.report.others += filter(None, (differs,))
                case [replay.FAILED, why]:
                    self.fail(why)
                case [replay.DONE]:
                    self._leave()

    def fail(self, why: str) -> None:
        self.report.failure = f"{self._step}: {why}"
        self._leave()

    def _leave(self) -> None:
        self.is_over = True
        self.deadline_s = perf_counter() + _LEAVING_S

    def ended(self, status: int) -> None:
        """Handle the status of the process's end."""
        if not self.is_over:
            how = f"with status {os.waitstatus_to_exitcode(status)}"
            if os.WIFSIGNALED(status):
                how = f"by {signal.Signals(os.WTERMSIG(status)).name}"
            self.fail(f"the process ended {how}")


def _prepare_child(parent: int, mask: set[Any], handler: Any) -> None:
    """Give the child its own name and group, a worker's signals, and an end with the parent's."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(PROBE_NAME)
    os.setpgid(0, 0)
    end_with_parent(parent)
    if handler is not None:
        signal.signal(signal.SIGCHLD, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    faulthandler.register(_DUMP, _STDERR, all_threads=True)


@contextmanager
def _without_handler_of_sigchld() -> Iterator[Any]:
    """Remove the handler of SIGCHLD: servers take all children for workers. Yields it or None."""
    handler = signal.getsignal(signal.SIGCHLD)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield None
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield handler
    finally:
        signal.signal(signal.SIGCHLD, handler)
        if callable(handler):  # another child may have ended meanwhile
            signal.raise_signal(signal.SIGCHLD)


def _end(pid: int) -> int:
    """Kill the probe's group and reap it last; returns the probe's status."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return 0
    return status


def _has_ended(pid: int) -> bool:
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return found is not None


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
