"""The exit of a child: it runs its atexit functions, flushes its files and ends.

It skips CPython's finalization. That would write to every object, and so copy every shared page,
just when all workers stop at once. Owns finding the exit status: CPython decides on it and keeps
it to itself. docs/internals/child-and-exit.md has the whole order of events.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import NoReturn

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native
from pasture.sealing import open_files

STDOUT_LOST = 120
"""CPython's exit status when the standard streams cannot be flushed."""

LOCK_LIMIT_S = 5.0
"""Longest time that other threads may keep files locked at the exit."""

_LOCK_LIMIT_AT_SEAL_S = 0.1
_C_LONG_MAX = 2**63 - 1

LastWork = Callable[[int], int | None]
"""Gets the status with which the process would end and returns the one with which it shall end;
None: the interpreter shall finalize as usual."""

_installed = False
_flushes_at_end = False
_open_files_too = False
_traceback_at_fork: TracebackType | None = None
_last_work: LastWork | None = None


def watch() -> None:
    """Prepare the exits of parent and children. Call it in the parent, before the seal.

    From now on the interpreter's exit code is kept. Open files are flushed twice: now, so that no
    child inherits what is still to be written, and at the end of the process, because an object
    that holds a file may be sealed and never release it. Without an extension for this interpreter
    nothing is done, here and in `install`.
    """
    global _flushes_at_end
    try:
        native().watch_system_exit()
        open_files.learn_locks()
        open_files.flush(open_files.LockWait(_LOCK_LIMIT_AT_SEAL_S))
        if not _flushes_at_end:
            native().atexit_run_last(_flush_at_end)
            _flushes_at_end = True
    except (UnsupportedInterpreter, NotImplementedError):
        pass


def note_frozen_files() -> None:
    """Spare the ends of this process and its children a walk through what is frozen now.

    Call it in the parent, after the seal.
    """
    try:
        native().note_frozen_files()
    except (UnsupportedInterpreter, MemoryError, TypeError):
        pass  # they walk


def install() -> None:
    """Make this process and its children end without finalization. Call it in the child.

    A child finalizes as usual where there is no extension, where that does not know how the
    interpreter keeps the functions of atexit, and in an interpreter that turns interactive at
    the end.
    """
    global _installed, _traceback_at_fork
    _traceback_at_fork = _last_traceback()
    if _installed or sys.flags.inspect or sys.flags.interactive:
        return
    try:
        native().atexit_run_last(_leave)
    except (UnsupportedInterpreter, NotImplementedError):
        return
    # atexit's list is inherited: children of this child leave in the same way.
    _installed = True


def _flush_at_end() -> None:
    """Write what finalization would write, in a process that will be finalized, and have what its
    modules hold end as if nothing were sealed."""
    if not _installed:  # else `_leave` comes next
        wait = open_files.LockWait(LOCK_LIMIT_S)
        _finish_open_files(wait)
        _all_unlocked(wait)
        _finalize_before_modules()


def _finalize_before_modules() -> None:
    with suppress(NotImplementedError):
        native().finalize_before_modules()


def flush_open_files_too() -> None:
    """Flush files that this process left open, too, when it ends. Call it in the child."""
    global _open_files_too
    _open_files_too = True


def before_leaving(work: LastWork) -> None:
    """Have a function called when a process leaves, once its status is known. The latest counts."""
    global _last_work
    _last_work = work


def _leave() -> None:
    """End the process. Runs as the last atexit function, so threads have been joined."""
    status, interrupted = _exit_status()
    if _last_work is not None:
        changed = _last_work(status)
        if changed is None:
            _finalize_before_modules()
            return
        status = changed
    _end(status, interrupted=interrupted)


def leave(status: int) -> NoReturn:
    """End this process now, as the interpreter would, without finalization and from any frame.

    Call it in a child: threads are joined and the functions of atexit run, but nothing is unwound.
    """
    try:
        for step in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]
            with suppress(BaseException):
                step()
        _end(status)
    finally:
        os._exit(status)


def _end(status: int, *, interrupted: bool = False) -> None:
    """Write what finalization would write, and end."""
    wait = open_files.LockWait(LOCK_LIMIT_S)
    if not _flush_standard_streams(wait):
        status = STDOUT_LOST
    if _open_files_too or _flushes_at_end:
        _finish_open_files(wait)
    if not _all_unlocked(wait):
        status = status or STDOUT_LOST
    if interrupted:
        # A shell knows an interrupted program by the signal that ended it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    native().exit_process(status, wait.left_s)


def _exit_status() -> tuple[int, bool]:
    """The status with which CPython would end now; whether by an interrupt.

    Source: CPython 3.14 Python/pythonrun.c, _Py_HandleSystemExitAndKeyboardInterrupt;
    Modules/main.c, pymain_run_python, exit_sigint.
    """
    try:
        return status_of(native().system_exit_code()), False
    except LookupError:
        pass
    trace = _last_traceback()
    if trace is None or trace is _traceback_at_fork or trace.tb_frame.f_back is not None:
        return 0, False
    # It came through the outermost frame: no code caught it.
    interrupted = issubclass(sys.last_type or BaseException, KeyboardInterrupt)
    return (128 + signal.SIGINT if interrupted else 1), interrupted


def status_of(code: object) -> int:
    """The exit status that a `SystemExit.code` stands for, 0 to 255."""
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF if -_C_LONG_MAX - 1 <= code <= _C_LONG_MAX else 0xFF
    return 1  # CPython has printed it


def _last_traceback() -> TracebackType | None:
    """The traceback of the last exception that CPython printed as uncaught."""
    trace: TracebackType | None = getattr(sys, "last_traceback", None)
    return trace


def flush() -> bool:
    """Flush what finalization would flush; returns whether the standard streams were written.

    For a process that its server is about to end with `os._exit`. Says on stderr which files a
    thread kept locked.
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
        _complain(f"pasture: a thread keeps {_name(file)} locked at the exit: it was not flushed\n")
    return not wait.given_up


def _flush_standard_streams(wait: open_files.LockWait) -> bool:
    return all([_flush_standard(name, wait) for name in ("stdout", "stderr")])


def _flush_standard(name: str, wait: open_files.LockWait) -> bool:
    stream = getattr(sys, name, None)
    if stream is None:
        return True
    try:
        if getattr(stream, "closed", False):
            return True
        if not wait.can_write(stream, getattr(stream, "buffer", None)):
            return False
        stream.flush()
    except BaseException as error:
        if name == "stdout":
            _report_unwritten(stream, error)
        return False
    return True


def _report_unwritten(stream: object, error: BaseException) -> None:
    try:
        print(f"Exception ignored in: {stream!r}", file=sys.stderr)
        traceback.print_exception(error, file=sys.stderr)
    except Exception:
        pass  # nowhere is left to complain


def _name(file: object) -> str:
    try:
        return repr(file)
    except Exception:
        return f"a {type(file).__name__}"


def _complain(text: str) -> None:
    """Not by sys.stderr, which may be the one that is locked."""
    try:
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass  # nowhere is left to complain
