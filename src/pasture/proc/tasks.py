"""The threads of a process as the kernel sees them: how often each ran. `/proc/PID/task`.

Standard library alone, since servers read it too. Source: proc_pid_status(5),
`voluntary_ctxt_switches`; proc_pid_stat(5) for the states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_ASLEEP = "S"
"""Interruptible, as calls that wait are. A page that is read from a disk puts a thread into `D`,
and a debugger into `t`, wherever its code stands."""


@dataclass(frozen=True, slots=True)
class Task:
    """One thread at one moment."""

    # How often the kernel took it off a processor. Two equal ones of a thread that was asleep at
    # the first say that it did not run in between.
    switches: int
    asleep: bool  # whether it waited in a call of the kernel then


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
    """Every thread of a process (or of this one) by its number; empty where `/proc` does not say.

    A thread that has just ended is left out. Safe with other threads running.
    """
    folder = proc / ("self" if pid is None else str(pid)) / "task"
    try:
        numbers = [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
    except OSError:
        return {}
    return read_some(folder, numbers)


def read_some(folder: Path, numbers: Iterable[int]) -> Mapping[int, Task]:
    """Threads by number, out of a `task` folder, without those that have just ended."""
    found: dict[int, Task] = {}
    for number in numbers:
        try:
            text = (folder / str(number) / "status").read_text(errors="replace")
            found[number] = parse_status(text)
        except (OSError, ValueError):
            continue
    return found


def did_not_run(before: Mapping[int, Task], after: Mapping[int, Task]) -> frozenset[int]:
    """The threads that were asleep at one look, and have not run until the next one."""
    return frozenset(
        number for number, task in before.items() if task.asleep and after.get(number) == task
    )
