"""The parent's side of the probe: it forks, listens, and ends the child when its time is over.

Owns the child, from its fork to its reaping, and the limits. Invariants: the probe is reaped, and
with it all processes of its group, before `probe` returns or raises. No handler of SIGCHLD sees it
end: a server would take it for a worker.
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
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from pasture.log_lines import log
from pasture.probe import cause, replay
from pasture.probe.expectation import Expectation
from pasture.probe.replay import Replay
from pasture.proc import memory_file
from pasture.proc.parent import end_with_parent
from pasture.proc.stat import PROBE_NAME
from pasture.warmup.guard import Guard
from pasture.warmup.interrupts import ENDING
from pasture.warmup.warmup import WarmUpReport

Play = Callable[[Replay], None]
"""Starts what serves requests as a worker would, in the child, and calls the replay with it."""

_GRACE_S = 3.0
"""After the probe's time is over: C code that never returns to Python sees no alarm."""

_LEAVING_S = 5.0
"""For what a worker does at its end, after the requests or a step that hangs."""

_ENDING_S = 2.0
"""For the same where the server is asked to end."""

_ENDING_LOOK_S = 0.02
_LOOK_S = 0.2
_STACKS_S = 0.3
_DUMP = signal.SIGRTMAX - 5
_STACKS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The result of a probe."""

    sent: int = 0  # how many requests were answered
    # Differences for the worse, a line each; none if it passed.
    differences: tuple[str, ...] = ()
    incomplete: str | None = None  # why not all requests were sent; None if they were
    seconds: float = 0.0
    # Bodies that differ, maybe by themselves, and failures of what the parent has not answered; a
    # line each.
    doubts: tuple[str, ...] = ()
    # Whether it was killed while it did what a worker does at its end.
    was_killed: bool = False


def probe(
    served: WarmUpReport,
    expected: Sequence[Expectation],
    play: Play,
    *,
    limit_s: float,
    with_lifespan: bool = True,
    reaped: Callable[[int], object] = lambda pid: None,
) -> ProbeReport:
    """Fork a process that serves requests as a worker would, and compare its answers.

    In the parent, after the seal. `reaped` is called with the pid of the process once it is gone.

    Raises:
        KeyboardInterrupt: the process was asked to end, and the probe was ended.
    """
    begin = perf_counter()
    listener = _Listener(expected, _threads_lost())
    deadline_s = begin + limit_s
    stacks = read_end = write_end = -1
    parent = os.getpid()

    def child() -> None:
        os.close(read_end)
        _prepare_child(parent, stacks, mask, handler)
        one = Replay(served, expected, write_end, deadline_s, with_lifespan=with_lifespan)
        one.run(play)

    # A signal that asks the process to end must find the guard, which ends the probe.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        stacks = _anonymous_file()
        read_end, write_end = os.pipe()
        with _without_handler_of_sigchld() as handler:
            pid = _fork(child)
            os.close(write_end)
            write_end = -1
            try:
                _listen(pid, read_end, listener, mask, deadline_s + _GRACE_S, stacks)
            finally:
                reaped(pid)
    except OSError as error:
        return ProbeReport(incomplete=f"no process can be had for it: {error}")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for file in filter(lambda number: number >= 0, (read_end, write_end, stacks)):
            os.close(file)
    return listener.report(perf_counter() - begin)


def _listen(
    pid: int, pipe: int, listener: _Listener, mask: set[Any], deadline_s: float, stacks: int
) -> None:
    try:
        with Guard(step_s=0, total_s=0) as guard:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            try:
                outcome = guard.run("probe", lambda: _hear(pid, pipe, listener, deadline_s))
            except KeyboardInterrupt:
                _ask_to_end(pid)
                raise
            if outcome.value:
                listener.dump = _stacks_of(pid, stacks)
    finally:
        listener.status = _end(pid)


def _ask_to_end(pid: int) -> None:
    """Have the probe end what it has started, and wait a moment for that."""
    with contextlib.suppress(OSError):
        os.kill(pid, replay.END_NOW)
    stop_at_s = perf_counter() + _ENDING_S
    while perf_counter() < stop_at_s and not _has_ended(pid):
        time.sleep(_ENDING_LOOK_S)


def _hear(pid: int, pipe: int, listener: _Listener, deadline_s: float) -> bool:
    """Take in events until the probe has ended; returns whether it hangs and cannot say where."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    is_leaving = False
    while True:
        if poll.poll(_LOOK_S * 1000):
            data = os.read(pipe, 1 << 16)
            if not data:
                return False
            listener.take(data)
        elif _has_ended(pid):  # a process that it started has the pipe's other end, too
            return False
        if listener.has_ended and not is_leaving:
            is_leaving, deadline_s = True, perf_counter() + _LEAVING_S
        if perf_counter() >= deadline_s:
            listener.was_killed = is_leaving
            return not is_leaving


class _Listener:
    def __init__(self, expected: Sequence[Expectation], threads_lost: str) -> None:
        self._threads_lost = threads_lost
        self._expected = {str(one.request): one for one in expected}
        self._rest = b""
        self._step = replay.WORKERS_START
        self._sent = 0
        self._differences: list[str] = []
        self._doubts: list[str] = []
        self._hung: str | None = None
        self._over: str | None = None
        self._is_done = False
        self.was_killed = False
        self.dump: str | None = None
        self.status = 0

    @property
    def has_ended(self) -> bool:
        """Whether what comes is the worker's end, of which nothing counts."""
        return self._is_done or self._hung is not None or self._over is not None

    def take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not self.has_ended:
                self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == replay.DONE:
            self._is_done = True
            return
        self._step = event["step"]
        if kind == replay.HUNG:
            self._hung = event["where"]
        elif kind == replay.OVER:
            self._over = event["where"]
        elif kind == replay.END:
            self._end_of(event)

    def _end_of(self, event: dict[str, Any]) -> None:
        expected = self._expected.get(self._step)
        self._sent += expected is not None
        difference = event.get("error")
        if difference is not None:
            known = self._expected.values() if expected is None else (expected,)
            sure = any(one.has_reference for one in known)
            found = self._differences if sure else self._doubts
            found.append(f"{self._step}: raises {difference}")
        elif expected is not None:
            differs = expected.differs(event["status"], event["skeletons"])
            if differs is not None:
                behind = event.get("behind")
                because = f", raised {behind}" if behind else ""
                sure = expected.is_sure(
                    event["status"], event["skeletons"], has_raised=bool(behind)
                )
                found = self._differences if sure else self._doubts
                found.append(f"{self._step}: {differs}{because}")

    def report(self, seconds: float) -> ProbeReport:
        """The report, once the probe has ended."""
        incomplete = None
        if self._hung is not None:
            self._differences.append(f"{self._step}: hung in {self._hung}{self._threads_lost}")
        elif self._over is not None:
            incomplete = f"its time was over in {self._step}, in {self._over}"
        elif self.dump is not None:
            where = cause.where(cause.of_dump(self.dump))
            self._differences.append(f"{self._step}: hung in {where}{self._threads_lost}")
        elif not self._is_done:
            if os.WIFSIGNALED(self.status):
                how = f"by {signal.Signals(os.WTERMSIG(self.status)).name}"
            else:
                how = f"with status {os.waitstatus_to_exitcode(self.status)}"
            self._differences.append(f"{self._step}: the process ended {how}")
        elif self._sent < len(self._expected) and not self._differences:
            incomplete = "its time was over"
        if incomplete is not None:
            incomplete += f": {self._sent} of {len(self._expected)} requests were answered"
        differences, doubts = tuple(self._differences), tuple(self._doubts)
        return ProbeReport(
            self._sent, differences, incomplete, seconds, doubts, was_killed=self.was_killed
        )


def _fork(child: Callable[[], object]) -> int:
    """Fork a process that calls the function and ends. Nothing of the parent's exit is done."""
    _flush()
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException:
            log.exception("probe")
        finally:
            _flush()
            os._exit(0)
    return pid


def _prepare_child(parent: int, stacks: int, mask: set[Any], handler: Any) -> None:
    """A name and a group of its own, signals as a worker has them, and an end with the parent's."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(PROBE_NAME)
    os.setpgid(0, 0)
    end_with_parent(parent)
    if handler is not None:
        signal.signal(signal.SIGCHLD, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if stacks >= 0:
        faulthandler.register(_DUMP, stacks, all_threads=True)


@contextmanager
def _without_handler_of_sigchld() -> Iterator[Any]:
    """Servers reap all that ends as a worker. Gives the handler; None for none."""
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
    """Kill the probe's group and reap it last: its number is no other's until then. Its status."""
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


def _stacks_of(pid: int, stacks: int) -> str:
    """Stacks of the probe's threads, be it in C code that never returns to Python."""
    if stacks < 0:
        return ""
    with contextlib.suppress(OSError):
        os.kill(pid, _DUMP)
    time.sleep(_STACKS_S)
    return os.pread(stacks, _STACKS_BYTES, 0).decode(errors="replace")


def _anonymous_file() -> int:
    try:
        return memory_file.create("pasture-probe")
    except OSError:
        return -1


def _threads_lost() -> str:
    """The threads that a fork leaves behind, as the end of a sentence."""
    own = threading.current_thread()
    names = [thread.name for thread in threading.enumerate() if thread is not own]
    try:
        others = len(os.listdir("/proc/self/task")) - len(names) - 1  # noqa: PTH208
    except OSError:
        others = 0
    if others > 0:
        names.append(f"{others} of C code")
    return f"; threads of the parent that no worker has: {', '.join(names)}" if names else ""


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
