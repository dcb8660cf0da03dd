"""A server that runs in C: hooks around its forks and at its exit, and the tuples that it keeps.

Owns ctypes and the rule that a callback raises no exception. Each hook can be set once in a process
and stays for its life.

Source: glibc 2.41 nptl/register-atfork.c (`__register_atfork`); on_exit(3).
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any

from pasture.serving import fork_hook

_libc = ctypes.CDLL(None)

_Prepare = ctypes.CFUNCTYPE(None)
_AtExit = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)

_kept: list[Any] = []
"""Callbacks, kept because C code calls them as long as the process lives."""

_python_forks = False

_calls: frozenset[tuple[CodeType, int]] = frozenset()
"""Code and instruction of each call on the stack when the server loaded this module."""


def before_c_fork(call: Callable[[], None]) -> None:
    """Call a function before each fork that C code makes, in the parent.

    Not before a fork of Python code, such as `os.fork`, and not before a vfork, as in `subprocess`
    and `posix_spawn`. The caller's thread gets the GIL for it.
    """

    def prepare() -> None:
        if not _python_forks:
            call()

    callback = _Prepare(prepare)
    _kept.append(callback)
    os.register_at_fork(
        before=lambda: _note(True),
        after_in_parent=lambda: _note(False),
        after_in_child=lambda: _note(False),
    )
    # `pthread_atfork` is linked statically and has no symbol.
    if _libc.__register_atfork(callback, None, None, None) != 0:
        raise MemoryError("__register_atfork failed")


def may_fork() -> bool:
    """Whether a hook may fork: glibc before 2.36, and musl, hold a lock while hooks run.

    Source: glibc bug 27054; musl 1.2.5 src/thread/pthread_atfork.c.
    """
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return name == "glibc" and tuple(map(int, version.split("."))) >= (2, 36)
    except (ValueError, OSError):
        return False


def before_fork_with_pythons_hooks(call: Callable[[], None]) -> None:
    """Call a function before each fork of C code that runs Python's hooks, in the parent.

    Call this while the server loads: a fork counts as the server's if no other Python code is on
    the stack.
    """
    global _calls
    _calls = frozenset(_calls_of(sys._getframe(1)))

    def before(forking: FrameType | None) -> None:
        caller = next(_calls_of(forking), None)
        if caller is None or caller in _calls:
            call()

    fork_hook.before_each(before)


def at_exit(call: Callable[[int], None]) -> None:
    """Call a function with the exit status when C code calls `exit`, in this process alone.

    It runs before functions that were registered with `atexit` or `at_exit` earlier.
    """
    owner = os.getpid()

    def leaving(status: int, _: object) -> None:
        if os.getpid() == owner:
            call(status)

    callback = _AtExit(leaving)
    _kept.append(callback)
    if _libc.on_exit(callback, None) != 0:
        raise MemoryError("on_exit failed")


def flush_c_streams() -> None:
    """Flush the streams of C code."""
    _libc.fflush(None)


def _calls_of(frame: FrameType | None) -> Iterator[tuple[CodeType, int]]:
    """Code and instruction of a frame and its callers, the innermost first."""
    while frame is not None:
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


def _note(forking: bool) -> None:
    global _python_forks
    _python_forks = forking


START_RESPONSE = "uwsgi_spit"
"""Name of uWSGI's `start_response`, the last element of such a tuple."""


def keep_out_of_the_seal() -> int:
    """Untrack uWSGI's tuples of arguments, so that they are not sealed; returns their number.

    In the master, before the seal. uWSGI calls an application with a tuple that it made once for
    each core and changes with `PyTuple_SetItem`, which needs a tuple with a single reference. An
    immortal one has more, and every request would be answered with a 500.

    Source: uWSGI 2.0.31 plugins/python/pyloader.c, init_uwsgi_app; wsgi_subhandler.c.
    """
    untrack = ctypes.pythonapi.PyObject_GC_UnTrack
    untrack.argtypes, untrack.restype = [ctypes.py_object], None
    found = [candidate for candidate in gc.get_objects() if is_arguments(candidate)]
    for arguments in found:
        untrack(arguments)
    return len(found)


def is_arguments(candidate: Any) -> bool:
    """Whether this is a tuple of an environ, or None, and uWSGI's `start_response`."""
    return (
        type(candidate) is tuple
        and len(candidate) == 2
        and type(candidate[1]) is BuiltinFunctionType
        and candidate[1].__name__ == START_RESPONSE
    )
