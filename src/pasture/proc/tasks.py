"""The threads of a process by the kernel: how often each ran. `/proc/PID/task`.

Source: proc_pid_status(5), `voluntary_ctxt_switches`; proc_pid_stat(5) for the states.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_ASLEEP = "S"
"""States of an interruptible sleep, as in calls that wait. A page that is read from a disk puts a
thread into `D`, and a debugger into `t`, wherever its code is.
"""

_FUTEX = {"x86_64": 202, "aarch64": 98}
_PRIVATE = 128
_ARGUMENTS = 6


class Task(NamedTuple):
    """One thread at one moment."""

    # How often the kernel took it off a processor. Equal counts of a thread that was asleep at the
    # first look mean that it did not run in between.
    switches: int
    asleep: bool  # whether it waited in a call of the kernel


def parse_status(text: str) -> Task:
    """Parse a thread's `status` file; ValueError if it is not what the kernel writes."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    try:
        voluntary, forced = fields["voluntary_ctxt_switches"], fields["nonvoluntary_ctxt_switches"]
        state = fields["State"].split()[0]
    except (KeyError, IndexError):
        raise ValueError("the file lacks a field") from None
    return Task(int(voluntary) + int(forced), state == _ASLEEP)


def read_tasks(pid: int | None = None, proc: Path = _PROC) -> Mapping[int, Task]:
    """Every thread of a process (or of this one) by its number; empty without `/proc`.

    A thread that has just ended is left out. Safe with other threads running.
    """
    folder = proc / ("self" if pid is None else str(pid)) / "task"
    try:
        numbers = [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
    except OSError:
        return {}
    return read_some(folder, numbers)


def read_some(folder: Path, numbers: Iterable[int]) -> Mapping[int, Task]:
    """Threads by number, from a `task` folder, without those that have just ended."""
    found: dict[int, Task] = {}
    for number in numbers:
        try:
            text = (folder / str(number) / "status").read_text(errors="replace")
            found[number] = parse_status(text)
        except (OSError, ValueError):
            continue
    return found


class Call(NamedTuple):
    """The call of the kernel that a thread waits in. Source: proc_pid_syscall(5), futex(2)."""

    number: int
    arguments: tuple[int, ...]

    @property
    def is_for_lock(self) -> bool:
        """Whether it waits for a lock or similar without a timeout."""
        return self.number == _FUTEX.get(os.uname().machine) and not self.arguments[3]

    @property
    def is_for_own_lock(self) -> bool:
        """As `is_for_lock`, for a lock of this process: an idle worker does not wait for one."""
        return self.is_for_lock and bool(self.arguments[1] & _PRIVATE)


def read_call(pid: int, number: int, proc: Path = _PROC) -> Call | None:
    """The call of a thread; None if it runs, or the kernel does not report it."""
    try:
        text = (proc / str(pid) / "task" / str(number) / "syscall").read_text()
        first, *rest = text.split()
        arguments = tuple(int(word, 16) for word in rest[:_ARGUMENTS])
        return Call(int(first), arguments) if len(arguments) == _ARGUMENTS else None
    except (OSError, ValueError):
        return None


def is_locked(pid: int, proc: Path = _PROC, *, main_serves: bool = False) -> bool:
    """Whether a process's main thread waits for a lock, and no other thread for a request.

    An idle thread of uWSGI's waits for one; with `main_serves` no thread waits by design.
    """
    main = read_call(pid, pid, proc)
    if main is None or not main.is_for_own_lock:
        return False
    calls = [read_call(pid, number, proc) for number in read_tasks(pid, proc)]
    return main_serves or all(call is not None and call.number == main.number for call in calls)


def did_not_run(before: Mapping[int, Task], after: Mapping[int, Task]) -> frozenset[int]:
    """The threads that were asleep at one look, and have not run until the next one."""
    return frozenset(
        number for number, task in before.items() if task.asleep and after.get(number) == task
    )
