"""The other threads of a process, waiting or running.

A thread waits if the kernel did not run it at all while the interpreter's lock was free: it is in a
call that has released the lock, and cannot touch an object before it gets the lock again.
docs/internals/threads.md says what each step of the seal needs.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from pasture.proc.tasks import Task, did_not_run, read_tasks

GRACE_S = 1.0
"""How long to look for a moment in which a thread that wakes from time to time waits."""

_MIN_WINDOW_S = 0.01
_MAX_WINDOW_S = 0.25
_SHORT_WINDOW_S = 0.002
"""For threads that wake a hundred times a second, as those of profilers do."""

_MAX_DEPTH = 4
_BEGINNING = tuple(
    function.__code__
    for name in ("run", "_bootstrap_inner", "_bootstrap")
    if (function := getattr(threading.Thread, name, None)) is not None
)
"""Code that every thread begins with, which is left out."""

UNKNOWN = "a thread that C code started"


class Neighbour(NamedTuple):
    """Another thread that can run Python code."""

    name: str  # given by its program
    waits: bool  # whether it is proved to wait outside of Python
    # The innermost calls of its Python code, `file:line in function` each, innermost first; empty
    # if it runs none.
    stack: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} ({' < '.join(self.stack) or 'outside of Python'})"


def look(states: int, *, grace_s: float = GRACE_S) -> tuple[Neighbour, ...]:
    """Look at all other threads that can run Python code. Lets them run meanwhile.

    Without /proc no thread is proved to wait.

    Args:
        states: number of the interpreter's thread states, the caller's included. Those beyond
            the threads that `threading` knows belong to C code.
        grace_s: how long to look again while one of them runs, in seconds.
    """
    if states <= 1:
        return ()
    begin = time.monotonic()
    long_s = min(max(_MIN_WINDOW_S, 2.5 * sys.getswitchinterval()), _MAX_WINDOW_S)
    waited: frozenset[int] = frozenset()
    while True:
        spent_s = time.monotonic() - begin
        before = read_tasks()
        # The lock is free meanwhile: a thread that wants it gets it.
        time.sleep(long_s if spent_s < grace_s / 2 else _SHORT_WINDOW_S)
        waiting = did_not_run(before, read_tasks())
        waited |= waiting
        neighbours = _neighbours(states, before, waiting)
        if all(one.waits for one in neighbours):
            return neighbours
        if spent_s > grace_s:
            # A thread that runs all the time is to blame, not those that wake now and then.
            blamed = _neighbours(states, before, waited)
            return neighbours if all(one.waits for one in blamed) else blamed


def _neighbours(
    states: int, tasks: Mapping[int, Task], waiting: frozenset[int]
) -> tuple[Neighbour, ...]:
    own = threading.get_native_id()
    frames = frames_of_others()
    # Not by `native_id`: before CPython 3.13 a fork leaves it as it was in the parent.
    known = [one for one in threading.enumerate() if one.ident != threading.get_ident()]
    found = [
        Neighbour(thread.name, thread.native_id in waiting, stack_of(frames.get(thread.ident or 0)))
        for thread in known
    ]
    # It is not known which task a state of C code belongs to: all that are left must wait.
    rest = set(tasks).difference((own,), (thread.native_id for thread in known))
    foreign = Neighbour(UNKNOWN, bool(tasks) and rest <= waiting)
    return tuple(found + [foreign] * max(states - 1 - len(found), 0))


def frames_of_others() -> dict[int, FrameType]:
    """The innermost frame of each other Python thread, by its id.

    One's own is left out: a frame that its own variable holds would keep all its callers alive.
    """
    own = frames_of_others.__code__  # gevent replaces what says which thread this is
    return {
        ident: frame for ident, frame in sys._current_frames().items() if frame.f_code is not own
    }


def stack_of(frame: FrameType | None, depth: int = _MAX_DEPTH) -> tuple[str, ...]:
    """The innermost calls of a thread, as those of a `Neighbour`."""
    calls: list[str] = []
    while frame is not None and len(calls) < depth and frame.f_code not in _BEGINNING:
        code = frame.f_code
        calls.append(f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}")
        frame = frame.f_back
    return tuple(calls)
