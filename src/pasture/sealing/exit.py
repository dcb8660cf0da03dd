"""The exit of a child: it runs its atexit functions, flushes its files and ends.

It skips CPython's finalization, which would write to every object and so copy every shared page,
just when all workers stop at once. Owns the work before the end; the extension returns to the
interpreter, which knows the exit status and ends the process. docs/internals/child-and-exit.md
lists the order of events.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native
from pasture.sealing import open_files

STDOUT_LOST = 120
"""CPython's exit status when the standard streams cannot be flushed."""

LOCK_LIMIT_S = 5.0
"""Longest time that other threads may keep files locked at the exit."""

_LOCK_LIMIT_AT_SEAL_S = 0.1
_GOES_ROUND = sys.version_info >= (3, 15)
"""Whether the interpreter waits again, for threads that a function of atexit has started."""

_P = ParamSpec("_P")
_R = TypeVar("_R")

sealed_in = 0
"""Pid of the process that was sealed last: this one or an ancestor."""

_owner = os.getpid()
"""Pid of the process that writes what open files have buffered."""

_installed = False
_armed = False
_open_files_too = False
_last_work: Callable[[Callable[[], None]], bool] | None = None
"""Is given what flushes files; if it returns false, the interpreter finalizes as usual."""


class Ending(IntEnum):
    """The result of the last function of atexit. The extension has the same numbers."""

    FINALIZE = 0  # the interpreter finalizes
    AGAIN = 1  # the interpreter calls again
    WRITTEN = 2  # leave
    STREAM_LOST = 3  # leave: a standard stream could not be written
    FILE_GIVEN_UP = 4  # leave: a thread kept a file locked


def watch() -> None:
    """Prepare the exits of parent and children. Call it in the parent, before the seal.

    Open files are flushed twice: now, so that no child inherits what is still to be written, and
    at the end of the process, because an object that holds a file may be sealed and never release
    it. A process that was forked from one with the same buffers does not flush now: the data would
    be in the file twice. Without an extension for this interpreter this and `install` do nothing.
    """
    global _armed, sealed_in
    sealed_in = os.getpid()
    try:
        open_files.learn_locks()
        if sealed_in == _owner or not os.path.exists(f"/proc/{_owner}"):  # noqa: PTH110
            open_files.flush(open_files.LockWait(_LOCK_LIMIT_AT_SEAL_S))
        native().arm_exit(_at_end)
        _armed = True
    except (UnsupportedInterpreter, NotImplementedError):
        pass


def take_over_files() -> None:
    """Make this forked process write the buffers of its open files."""
    global _owner
    _owner = os.getpid()


def note_frozen_files() -> None:
    """Note the frozen files: the ends of this process and its children need not search for them."""
    try:
        native().note_frozen_files()
    except (UnsupportedInterpreter, MemoryError, TypeError):
        pass  # they walk


def install() -> None:
    """Make this process and its children end without finalization. Call it in the child.

    A child finalizes as usual without the extension, or where the extension cannot leave the
    interpreter's finalization.
    """
    global _installed
    _installed = True


def _once_more(step: Callable[_P, _R]) -> Callable[_P, _R]:
    """A step that is repeated after a MemoryError: there may be memory by then."""

    @wraps(step)
    def taken(*args: _P.args, **keywords: _P.kwargs) -> _R:
        try:
            return step(*args, **keywords)
        except MemoryError:
            return step(*args, **keywords)

    return taken


@_once_more
def _at_end(can_leave: bool) -> tuple[Ending, float]:
    """The work of the last atexit function, after threads were joined.

    Returns the next step, and the seconds for which locks may still be waited for.
    """
    wait = open_files.LockWait(LOCK_LIMIT_S)
    if not (_installed and can_leave):
        _finish_open_files(wait)
        _all_unlocked(wait)
        _finalize_before_modules()
        return Ending.FINALIZE, 0.0
    threading = sys.modules.get("threading")
    if _GOES_ROUND and threading is not None:
        others = (one for one in threading.enumerate() if one is not threading.main_thread())
        if not all(one.daemon for one in others):
            return Ending.AGAIN, 0.0

    def flush() -> None:
        _stop_handling_signals()
        open_files.flush(wait)

    if _last_work is not None and not _last_work(flush):
        open_files.flush(wait)
        _finalize_before_modules()
        return Ending.FINALIZE, 0.0
    return _write_all(wait), wait.left_s


def _finalize_before_modules() -> None:
    """Finalize the objects of modules as if nothing were sealed."""
    with suppress(NotImplementedError):
        native().finalize_before_modules(False)


def flush_open_files_too() -> None:
    """Flush files that this process left open, too, when it ends. Call it in the child."""
    global _open_files_too
    _open_files_too = True


def before_leaving(work: Callable[[Callable[[], None]], bool]) -> None:
    """Call a function when a process leaves. The latest counts."""
    global _last_work
    _last_work = work


def leave(status: int) -> NoReturn:
    """End this process now, as the interpreter would, without finalization and from any frame.

    Call it in a child: threads are joined and the functions of atexit run, but nothing is unwound.
    """
    try:
        shutdown = getattr(sys.modules.get("threading"), "_shutdown", lambda: None)
        for step in (shutdown, atexit._run_exitfuncs):
            with suppress(BaseException):
                step()
        wait = open_files.LockWait(LOCK_LIMIT_S)
        ending = _write_all(wait)
        if ending is Ending.STREAM_LOST or (ending is Ending.FILE_GIVEN_UP and status == 0):
            status = STDOUT_LOST
        native().exit_process(status, wait.left_s)
    finally:
        os._exit(status)


@_once_more
def _write_all(wait: open_files.LockWait) -> Ending:
    """Write what finalization would write, in the same order."""
    written = _flush_standard_streams(wait)
    _stop_handling_signals()
    if _open_files_too or _armed:
        _finish_open_files(wait)
    unlocked = _all_unlocked(wait)
    ending = Ending.WRITTEN if unlocked else Ending.FILE_GIVEN_UP
    return ending if written else Ending.STREAM_LOST


def _stop_handling_signals() -> None:
    """Give all signals their default action: Python's handlers do not run from here on.

    Source: CPython 3.14 Python/pylifecycle.c, Py_FinalizeEx; Modules/signalmodule.c,
    _PySignal_Fini.
    """
    for number in signal.valid_signals():
        with suppress(ValueError, OSError):  # another thread's signal, or one of the C library's
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)


@_once_more
def flush() -> bool:
    """Flush as finalization would; returns whether the standard streams were written.

    For a process that its server is about to end with `os._exit`. Reports on stderr the files that
    a thread kept locked.
    """
    wait = open_files.LockWait(LOCK_LIMIT_S)
    written = _flush_standard_streams(wait)
    if _open_files_too:
        _finish_open_files(wait)
    return _all_unlocked(wait) and written


def _finish_open_files(wait: open_files.LockWait) -> None:
    open_files.finish(wait, inherited=native().files(True) if _installed else ())


def _all_unlocked(wait: open_files.LockWait) -> bool:
    """Whether every file could be written; reports on stderr which ones could not."""
    for file in wait.given_up:
        try:
            name = repr(file)
        except Exception:
            name = f"a {type(file).__name__}"
        line = f"pasture: a thread keeps {name} locked at the exit: it was not flushed\n"
        with suppress(OSError):  # stderr is closed; sys.stderr may be the locked file
            os.write(2, line.encode("utf-8", "backslashreplace"))
    return not wait.given_up


def _flush_standard_streams(wait: open_files.LockWait) -> bool:
    return all([_flush_standard(name, wait) for name in ("stdout", "stderr")])


def _flush_standard(name: str, wait: open_files.LockWait, *, is_again: bool = False) -> bool:
    stream = getattr(sys, name, None)
    if stream is None or _is_closed(stream):
        return True
    try:
        if not wait.can_write(stream, getattr(stream, "buffer", None)):
            return False
        stream.flush()
    except BaseException as error:
        if isinstance(error, MemoryError) and not is_again:  # there may be memory now
            return _flush_standard(name, wait, is_again=True)
        if name == "stdout":
            own = error.__traceback__
            native().report_unflushed(
                stream, error.with_traceback(own.tb_next if own is not None else None)
            )
        return False
    return True


def _is_closed(stream: object) -> bool:
    """Whether a stream is closed, as CPython's file_is_closed: one that raises counts as open."""
    try:
        return bool(getattr(stream, "closed", False))
    except BaseException:
        return False
