"""The threads of a server's master, from outside: when each began, whether it waits, whose it is.

Owns the guess from a thread's stack: the outermost code on it, beside the C library's and the
interpreter's, is of the library that started it.

Source: proc_pid_task(5), proc_pid_stat(5), proc_pid_syscall(5).
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from pasture.doctor.notes import Notes
from pasture.doctor.packages import STANDARD_LIBRARY, package_of, package_of_module, read_text
from pasture.proc.maps import Mapping
from pasture.proc.stat import parse_stat
from pasture.proc.tasks import did_not_run, read_some
from pasture.trust.untrusted_text import printable

_LIBC = re.compile(r"^(libc[.-]|libpthread|libc\.musl|ld-musl)")
_SYSTEM = re.compile(
    r"^(ld[-.]|libc[.-]|libpthread|libstdc\+\+|libgcc|libm[.-]"
    r"|libjemalloc|libtcmalloc|libmimalloc)"
)
_PYTHON = re.compile(r"^(libpython3|python(3[\d.]*t?)?$)")
_MOST_STACK_BYTES = 1 << 18
_MOST_THREADS = 200
_WORD = struct.Struct("<Q")
_LOOKS = 4
_BETWEEN_LOOKS_S = 0.05


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of a master beside its main one.

    Attributes:
        name: as the kernel shows it, or as its program named it where that is known.
        after_fork: whether it began after the oldest worker that is there was forked.
        waits: whether there was a moment in which it did not run at all.
        package: whose it is; "" where that cannot be told.
        is_python: whether it runs Python code, as far as its stack tells.
    """

    name: str
    after_fork: bool = False
    waits: bool = True
    package: str = ""
    is_python: bool = True

    def __str__(self) -> str:
        return f"{self.name} of {self.package}" if self.package else self.name


def read_threads(
    pid: int, workers: Sequence[int], mappings: Sequence[Mapping], notes: Notes, proc: Path
) -> tuple[Thread, ...]:
    """The threads of a process beside its main one, by number."""
    folder = proc / str(pid) / "task"
    try:
        numbers = sorted(int(path.name) for path in folder.iterdir() if path.name != str(pid))
    except OSError:
        return ()
    del numbers[_MOST_THREADS:]
    first = min((began for w in workers if (began := _began(proc / str(w), w))), default=None)
    waiting = _waiting(folder, numbers)
    found = []
    for number in numbers:
        began = _began(folder / str(number), number)
        if began is None:
            continue  # it has just ended
        is_late = first is not None and began > first
        name, owner, is_python = _identity(pid, number, mappings, notes, proc)
        found.append(Thread(name, is_late, number in waiting, owner, is_python))
    return tuple(found)


def _identity(
    pid: int, number: int, mappings: Sequence[Mapping], notes: Notes, proc: Path
) -> tuple[str, str, bool]:
    """Name, package, and whether it runs Python code: as noted, else from its stack."""
    owner, is_python = _owner(pid, number, mappings, proc)
    for noted, name, module in notes.threads:
        if noted == number:
            known = package_of_module(module)
            return name, owner if known in ("", STANDARD_LIBRARY) else known, True
    comm = read_text(str(proc / str(pid) / "task" / str(number) / "comm")).strip()
    return printable(comm), owner, is_python


def _began(folder: Path, number: int) -> tuple[int, int] | None:
    """When a task began: threads and processes are numbered together, within a clock's tick."""
    try:
        return parse_stat((folder / "stat").read_bytes()).start_time, number
    except (OSError, ValueError):
        return None


def _waiting(folder: Path, numbers: Sequence[int]) -> frozenset[int]:
    """Those that did not run between two looks at them."""
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


def _owner(pid: int, number: int, mappings: Sequence[Mapping], proc: Path) -> tuple[str, bool]:
    """The package of the outermost code on a thread's stack, "" where there is none of its own;
    and whether it runs Python code."""
    words = read_text(str(proc / str(pid) / "task" / str(number) / "syscall")).split()
    if len(words) < 3 or not words[-2].startswith("0x"):
        return "", True  # it runs, or the kernel does not tell
    stack = _stack_bytes(pid, int(words[-2], 16), mappings, proc)
    return _told_by(list(_code_on(stack, mappings)))


def _told_by(files: Sequence[str]) -> tuple[str, bool]:
    """Package, and whether the thread runs Python code, by the files on its stack, outermost first.

    The C library begins a thread; what lies farther out are variables of the thread.
    """
    first = next((i for i, file in enumerate(files) if _LIBC.match(PurePath(file).name)), 0)
    inside = [file for file in files[first:] if not _SYSTEM.match(PurePath(file).name)]
    is_python = not inside or _is_python(inside[0])
    own = (f for f in inside if not _is_python(f) and "/lib-dynload/" not in f)
    return next(map(package_of, own), ""), is_python


def _is_python(file: str) -> bool:
    return bool(_PYTHON.match(PurePath(file).name))


def _stack_bytes(pid: int, stack: int, mappings: Sequence[Mapping], proc: Path) -> bytes:
    """The outer end of the stack that holds an address."""
    end = next((m.end for m in mappings if m.start <= stack < m.end), stack)
    try:
        memory = os.open(proc / str(pid) / "mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        begin = max(stack, end - _MOST_STACK_BYTES) & -_WORD.size
        return os.pread(memory, end - begin, begin)
    except OSError:
        return b""
    finally:
        os.close(memory)


def _code_on(stack: bytes, mappings: Sequence[Mapping]) -> Iterable[str]:
    """Files of the code that the words of a stack point to, the outermost first."""
    code = [m for m in mappings if m.is_file and "x" in m.permissions]
    low, high = min((m.start for m in code), default=0), max((m.end for m in code), default=0)
    for at in range(len(stack) // 8 * 8 - 8, -1, -8):
        [word] = _WORD.unpack_from(stack, at)
        if low <= word < high:
            yield from (m.path for m in code if m.start <= word < m.end)
