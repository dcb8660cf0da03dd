"""A new start of this server program, in the same process, as without pasture.

Owns what the first start has changed and the new one needs: the original environment, working
directory and arguments, and no open file of the first. The pid stays. Invariant: the mark of a
plain start is read once, by the process that it was written for, and reaches no other process.
Engines themselves pass on files that stay open, such as listeners.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from pasture import off
from pasture.serving.starter import starter

VARIABLE = "PASTURE_PLAIN"
"""Passed from one start to the next: the pid, the kind of start, and why. Not for users."""

_MAX_CHARACTERS = 2_000
_STANDARD_STREAMS = 2
_COPY = fcntl.F_DUPFD_CLOEXEC

Restart = Callable[..., None]
"""Takes why, and `plain`, as `again`; returns only if a new start is impossible."""


def parse(text: str | None, pid: int) -> tuple[str, str]:
    """The kind of a process's latest restart, `plain` or `again`, and why; "" for a first start.

    Read from the variable, which may be another process's.
    """
    number, how, why = (*(text or "").split(" ", 2), "", "")[:3]
    return (how, why) if number == str(pid) and how in ("plain", "again") else ("", "")


def _open_files() -> frozenset[int]:
    try:
        found = map(int, os.listdir("/proc/self/fd"))  # noqa: PTH208
    except OSError:
        return frozenset()
    return frozenset(filter(_is_open, found))


def _is_open(file: int) -> bool:
    try:
        os.fstat(file)
    except OSError:
        return False
    return True


def _working_directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None  # the folder has been removed


def _ignored_signals() -> frozenset[int]:
    return frozenset(n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN)


_how, _why = parse(os.environ.pop(VARIABLE, None), os.getpid())

why_plain: str | None = _why if _how == "plain" else off.why()
"""Why this start is without pasture, or None."""

is_another: bool = _how == "again"
"""Whether this process has started before, with pasture, and found a reason to start again."""

is_due: bool = False
"""Whether this process is about to start again: its end is not the end of its program."""

first_environ: Mapping[str, str] = dict(os.environ)
"""The environment of this process at its start."""

arguments: Sequence[str] = (starter(), *sys.orig_argv[1:])
"""The command line of a new start, the program first."""

_directory = _working_directory()
_files = _open_files()
_ignored = _ignored_signals()
_pid = os.getpid()


def is_run_by_pasture() -> bool:
    """Whether `pasture run` has started this program."""
    return sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2].startswith("pasture.servers.")


def went_into_background() -> None:
    """Note that the server is a daemon now: its first process has ended, this one goes on."""
    global _pid
    _pid = os.getpid()


def is_possible(command: Sequence[str] = arguments) -> bool:
    """Whether this process can be replaced by a start with this command line."""
    if not command[0] or len(command) == 1 or command[-1] == "-":
        return False  # a prompt, or a program that was read from stdin
    module = sys.modules.get("multiprocessing.process")
    is_child = module is not None and module.parent_process() is not None
    return os.getpid() == _pid and not is_child  # else another process is the program


def again(
    why: str,
    *,
    plain: bool = True,
    command: Sequence[str] = arguments,
    environ: Mapping[str, str] = first_environ,
    directory: str | None = _directory,
    kept: Mapping[int, int] = MappingProxyType({}),
) -> None:
    """Replace this process by a new start of its program. Returns only if that is impossible.

    Args:
        plain: as without pasture.
        command, environ, directory: of the new start.
        kept: files for the new start: the number there, and the number here.
    """
    if not is_possible(command):
        return
    how = "plain" if plain else "again"
    value = f"{os.getpid()} {how} {why[:_MAX_CHARACTERS]}".replace("\0", "")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    now = _working_directory()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    files = {file: os.get_inheritable(file) for file in _open_files()}
    try:
        with _numbered(kept):
            if directory is not None:
                os.chdir(directory)
            _leave_no_timer_nor_signal()
            os.execve(command[0], list(command), {**environ, VARIABLE: value})
    except OSError:  # the program has been removed, for instance
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for file, inheritable in files.items():
            _set_inheritable(file, inheritable)
        if now is not None:
            with contextlib.suppress(OSError):
                os.chdir(now)


@contextlib.contextmanager
def _numbered(kept: Mapping[int, int]) -> Iterator[None]:
    """Give files the numbers that the new start expects; undone if the new start fails."""
    free = max((*kept, *kept.values()), default=0) + 1
    copies = {number: fcntl.fcntl(file, _COPY, free) for number, file in kept.items()}
    hidden = {number: fcntl.fcntl(number, _COPY, free) for number in kept if _is_open(number)}
    try:
        for file in _open_files():
            if file > _STANDARD_STREAMS and file not in _files:
                _set_inheritable(file, False)
        for number, copy in copies.items():
            os.dup2(copy, number)
        yield
    finally:
        for number, copy in copies.items():
            os.close(copy)
            if number in hidden:
                os.dup2(hidden[number], number)
                os.close(hidden[number])
            else:
                os.close(number)


def _leave_no_timer_nor_signal() -> None:
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)  # an exec keeps the timer, not its handler
    for number in _ignored_signals() - _ignored:
        signal.signal(number, signal.SIG_DFL)  # an exec keeps what is ignored
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())


def _set_inheritable(file: int, inheritable: bool) -> None:
    with contextlib.suppress(OSError):  # it may be closed by now
        os.set_inheritable(file, inheritable)
