"""The threads of a server's master, seen from outside: start, waiting or running, package.

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

    # The program's name for it where that is known, else the kernel's; "" where that is the
    # program's own.
    name: str
    after_fork: bool = False  # whether it began after the oldest living worker was forked
    waits: bool = True  # whether it did not run at all for a moment
    package: str = ""  # its package; "" where that is not known
    is_python: bool = True  # whether it runs Python code, by its stack
    copes: bool = True  # whether native code is known to cope without it in workers
    is_cut: bool = False  # whether the name may be cut: the kernel keeps 15 characters

    def __str__(self) -> str:
        name = f"{self.name}..." if self.is_cut else self.name or "an unnamed one"
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
    """Name, package, whether it runs Python code, and copes: from notes or its stack."""
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
    """When a task began; within a tick of the clock its number decides."""
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
