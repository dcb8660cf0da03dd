"""The threads of a server's master, from outside: when each began, whether it waits, whose it is.

Source: proc_pid_task(5), proc_pid_stat(5).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pasture.fork_safety import native_threads
from pasture.proc.maps import Mapping
from pasture.proc.packages import STANDARD_LIBRARY, package_of_module, read_text
from pasture.proc.stacks import files_on_stack, own_code, owner_of
from pasture.proc.stat import parse_stat
from pasture.proc.tasks import did_not_run, read_some
from pasture.trust.untrusted_text import printable
from pasture_tools.doctor.notes import Notes

_MAX_THREADS = 200
_MAX_COMM = 15  # TASK_COMM_LEN without its end
_LOOKS = 4
_BETWEEN_LOOKS_S = 0.05


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of a master besides its main one."""

    # As the kernel shows it, or as its program named it where that is known; "" where it has no
    # name but its program's.
    name: str
    after_fork: bool = False  # whether it began after the oldest worker that is there was forked
    waits: bool = True  # whether there was a moment in which it did not run at all
    package: str = ""  # whose it is; "" where that is not known
    is_python: bool = True  # whether it runs Python code, as far as its stack shows
    copes: bool = True  # whether workers can do without it, as far as that is known of native code
    is_cut: bool = False  # whether the name may go on: the kernel keeps 15 characters

    def __str__(self) -> str:
        name = f"{self.name}..." if self.is_cut else self.name or "one without a name"
        return f"{name} of {self.package}" if self.package else name


def read_threads(
    pid: int, workers: Sequence[int], mappings: Sequence[Mapping], notes: Notes, proc: Path
) -> tuple[Thread, ...]:
    """The threads of a process besides its main one, by number."""
    folder = proc / str(pid) / "task"
    try:
        numbers = sorted(int(path.name) for path in folder.iterdir() if path.name != str(pid))
    except OSError:
        return ()
    del numbers[_MAX_THREADS:]
    first = min((began for w in workers if (began := _began(proc / str(w), w))), default=None)
    waiting = _waiting(folder, numbers)
    found = []
    for number in numbers:
        began = _began(folder / str(number), number)
        if began is None:
            continue  # it has just ended
        is_late = first is not None and began > first
        thread = _identity(pid, number, mappings, notes, proc)
        found.append(replace(thread, after_fork=is_late, waits=number in waiting))
    return tuple(found)


def _identity(
    pid: int, number: int, mappings: Sequence[Mapping], notes: Notes, proc: Path
) -> Thread:
    """Name, package, whether it runs Python code, and copes: as noted, else from its stack."""
    files = files_on_stack(pid, number, mappings, proc)
    owner, is_python = owner_of(files)
    for noted, name, module in notes.threads:
        if noted == number:
            known = package_of_module(module)
            whose = owner if known in ("", STANDARD_LIBRARY) else known
            return Thread(name, package=whose)
    tasks = proc / str(pid) / "task"
    comm, of_program = (read_text(str(tasks / str(n) / "comm")).strip() for n in (number, pid))
    copes = is_python or native_threads.copes(comm, owner, own_code(files))
    name = "" if comm == of_program else printable(comm)
    is_cut = len(name) == _MAX_COMM
    return Thread(name, package=owner, is_python=is_python, copes=copes, is_cut=is_cut)


def _began(folder: Path, number: int) -> tuple[int, int] | None:
    """When a task began: threads and processes are numbered together, within a clock's tick."""
    try:
        return parse_stat((folder / "stat").read_bytes()).start_time, number
    except (OSError, ValueError):
        return None


def _waiting(folder: Path, numbers: Sequence[int]) -> frozenset[int]:
    found: set[int] = set()
    before = read_some(folder, numbers)
    for _ in range(_LOOKS if numbers else 0):
        time.sleep(_BETWEEN_LOOKS_S)
        after = read_some(folder, numbers)
        found |= did_not_run(before, after)
        before = after
        if len(found) == len(numbers):
            break
    return frozenset(found)
