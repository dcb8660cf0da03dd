"""The lock or call that each thread of a process waits for, and the lost thread that holds the
lock.

Python's frames are read by the standard library's own reader of other processes (CPython 3.14), in
a process of its own, because the reader trusts what it reads. No code runs in the process that is
looked at, which may hold a lock for ever.

Source: proc_pid_syscall(5).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from pasture.errors import refused
from pasture.proc import tree
from pasture.proc.packages import read_text
from pasture.proc.stat import start_time
from pasture.proc.tasks import did_not_run, is_locked, read_call, read_tasks
from pasture.scoreboard.layout import Entry
from pasture.sealing import lost
from pasture.servers.engines import ENGINES
from pasture.trust.untrusted_text import printable
from pasture_tools.doctor import trouble

_PROC = Path("/proc")
_BETWEEN_LOOKS_S = 0.5
_READER_S = 20.0
_MAX_THREADS = 200
SHOWN_CALLS = 6
_FUTEX = "futex"
_CALLS = {
    "x86_64": {0: "read", 1: "write", 7: "poll", 23: "select", 35: "nanosleep", 42: "connect"}
    | {43: "accept", 44: "sendto", 45: "recvfrom", 47: "recvmsg", 61: "wait4", 72: "fcntl"}
    | {73: "flock", 202: _FUTEX, 230: "clock_nanosleep", 232: "epoll_wait", 270: "pselect6"}
    | {271: "ppoll", 281: "epoll_pwait", 288: "accept4"},
    "aarch64": {22: "epoll_pwait", 25: "fcntl", 32: "flock", 63: "read", 64: "write"}
    | {72: "pselect6", 73: "ppoll", 98: _FUTEX, 101: "nanosleep", 115: "clock_nanosleep"}
    | {202: "accept", 203: "connect", 206: "sendto", 207: "recvfrom", 212: "recvmsg"}
    | {242: "accept4", 260: "wait4"},
}
_IDLE_IN = tuple(row.idle_in for row in ENGINES.values() if row.idle_in)
_TIMED = "futex, for a time at most"
_TAKE_A_FILE = frozenset(("read", "write", "connect", "accept", "sendto", "recvfrom", "recvmsg"))
LOCK_FILES = frozenset(("threading.py", "queue.py"))
"""Files whose frames are skipped: the program's own call is further out."""

_READER = """
import _remote_debugging, json, sys
unwinder = _remote_debugging.RemoteUnwinder(int(sys.argv[1]), all_threads=True)
threads = {}
for one in unwinder.get_stack_trace():
    for thread in getattr(one, "threads", (one,)):
        threads[thread.thread_id] = calls = []
        for frame in thread.frame_info:
            line = frame[1] if isinstance(frame[1], int) else frame[1] and frame[1][0]
            calls.append((frame.filename, line or 0, frame.funcname))
print(json.dumps(threads))
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thread and the lock or call that it waits for."""

    number: int
    name: str  # by the kernel
    # The kernel's call that it is in; "" if it runs or that is not known. A futex counts only
    # without a timeout.
    call: str
    on: str  # the futex's address, or the file of that call
    calls: tuple[str, ...] = ()  # its Python calls, `file:line in function`, innermost first

    @property
    def waits_for_lock(self) -> bool:
        return self.call == _FUTEX

    @property
    def place(self) -> str:
        """The innermost call of the program's own."""
        outside = (call for call in self.calls if file_of(call) not in LOCK_FILES)
        return next(outside, "")

    def __str__(self) -> str:
        what = "runs" if not self.call else f"waits in {self.call}"
        if self.waits_for_lock:
            what = "waits for a lock"
        on = f" ({self.on})" if self.on else ""
        calls = " < ".join(self.calls[:SHOWN_CALLS])
        return f"{self.number} {self.name} {what}{on}" + (f": {calls}" if calls else "")


@dataclass(frozen=True, slots=True)
class Lost:
    """A thread of the parent that a process does not have."""

    name: str
    calls: tuple[str, ...]  # at the fork, or now where that was not noted

    def __str__(self) -> str:
        return f"{self.name}: {' < '.join(self.calls) or 'no Python code'}"


@dataclass(frozen=True, slots=True)
class Process:
    """The threads of a process, and those that it lost at the fork."""

    pid: int
    threads: tuple[Waiting, ...]  # the main one first
    lost: tuple[Lost, ...] = ()
    noted: bool = False  # whether these are as they were at the fork
    why_no_frames: str = ""  # "" if Python's frames were read
    by_design: bool = False  # whether its main thread waits for a lock while other threads serve

    @property
    def stuck(self) -> Waiting | None:
        """The thread that should serve and waits for a lock: the main one, or another by design."""
        if not self.by_design:
            return next((one for one in self.threads[:1] if one.waits_for_lock), None)
        return next((one for one in self.threads[1:] if one.waits_for_lock and one.calls), None)


def look(pid: int, proc: Path = _PROC) -> Process:
    """Look at a process, and at the calls of its parent's threads at the fork, or now."""
    threads, why = _threads(pid, proc)
    by_design = waits_by_design(pid, proc)
    noted = lost.read(pid, proc)
    if noted is not None:
        gone = tuple(Lost(*one) for one in noted)
    else:
        parent, started = tree.master_of(pid), start_time(pid)
        others = () if parent in (None, pid) else _threads(parent, proc)[0][1:]
        older = (one for one in others if 0 < start_time(one.number) < started)
        gone = tuple(Lost(one.name, one.calls) for one in older)
    return Process(pid, threads, gone, noted is not None, why, by_design)


def waits_by_design(pid: int, proc: Path = _PROC) -> bool:
    """Whether the main threads of an engine's workers wait for a lock while another serves."""
    files = read_text(str(proc / str(pid) / "maps"))
    return any(library in files for library in _IDLE_IN) and not is_locked(pid, proc)


def _threads(pid: int, proc: Path) -> tuple[tuple[Waiting, ...], str]:
    frames, why = _frames(pid)
    folder = proc / str(pid)
    numbers = _numbers(folder)
    unknown = frames.keys() - set(numbers)
    if pid not in frames and len(unknown) == 1:  # after a fork of C code the parent's number stays
        frames[pid] = frames.pop(unknown.pop())
    threads = []
    for number in numbers:
        name = printable(read_text(str(folder / "task" / str(number) / "comm")).strip())
        threads.append(Waiting(number, name, *_call(folder, number), frames.get(number, ())))
    return tuple(threads), why


def hung_among(
    pids: Iterable[int], entries: Mapping[int, Entry], *, serves: bool, proc: Path = _PROC
) -> tuple[Process, ...]:
    """The workers that have waited for a lock for a while and cannot go on.

    Args:
        serves: whether they serve web requests: an idle one then waits for connections.
    """

    def waits(pid: int) -> bool:
        call = read_call(pid, pid, proc) if serves else None
        return call is not None and call.is_for_own_lock

    locked = [pid for pid in pids if waits(pid) or trouble.is_locked(pid, entries.get(pid))]
    if not locked:
        return ()
    before = {pid: read_tasks(pid, proc) for pid in locked}
    time.sleep(_BETWEEN_LOOKS_S)
    still = {pid: did_not_run(before[pid], read_tasks(pid, proc)) for pid in locked}
    return tuple(
        one
        for one in (look(pid, proc) for pid in locked if pid in still[pid])
        if (stuck := one.stuck) is not None
        and stuck.number in still[one.pid]
        and (stuck.calls or is_locked(one.pid, proc))
    )


def file_of(call: str) -> str:
    """The file of `file:line in function`."""
    return call.partition(":")[0]


def _numbers(folder: Path) -> list[int]:
    try:
        numbers = [int(path.name) for path in (folder / "task").iterdir()]
    except OSError as error:
        if refused(error) is not None:
            raise
        return []
    return sorted(numbers, key=lambda number: (number != int(folder.name), number))[:_MAX_THREADS]


def _call(folder: Path, number: int) -> tuple[str, str]:
    """The kernel's call that a thread waits in, and its object."""
    call = read_call(int(folder.name), number, folder.parent)
    if call is None:
        return "", ""
    known = _CALLS.get(os.uname().machine, {})
    name = known.get(call.number, f"call {call.number}")
    if name == _FUTEX:
        return name if call.is_for_lock else _TIMED, f"futex {call.arguments[0]:#x}"
    if name in _TAKE_A_FILE:
        try:
            return name, printable(str((folder / "fd" / str(call.arguments[0])).readlink()))
        except OSError:
            pass
    return name, ""


def _frames(pid: int) -> tuple[dict[int, tuple[str, ...]], str]:
    """Calls of each thread by its number, or why they cannot be read."""
    if sys.version_info < (3, 14):
        return {}, "Python's frames are read by pasture on CPython 3.14 or later, as the server's"
    words = [sys.executable, "-I", "-c", _READER, str(pid)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_READER_S)
        threads: dict[str, list[tuple[str, int, str]]] = json.loads(done.stdout)
        return {
            int(number): tuple(
                printable(f"{PurePath(file).name}:{line} in {name}") for file, line, name in calls
            )
            for number, calls in threads.items()
        }, ""
    except subprocess.TimeoutExpired:
        return {}, "Python's frames cannot be read: the reader took too long"
    except (ValueError, AttributeError, TypeError):
        why = done.stderr.strip().rpartition("\n")[2]
        return {}, printable(f"Python's frames cannot be read: {why}")
