"""The end of a probe: what it has started is ended, and nothing of the parent's.

A worker ends by Python's own rules: threads that are no daemons are waited for, then the functions
of atexit are called, then those of weakref's finalizers. So does a probe, before any worker is
there. What the parent has registered would remove what workers are about to use, a temporary folder
for instance. Invariant: the probe calls only what was registered in it. It ends by `os._exit`.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import weakref
from time import perf_counter
from typing import Any

_THREADS_END_S = 1.0


def forget_the_parents() -> None:
    """Leave to the parent what it has registered for its end. In the child, first of all."""
    atexit._clear()
    known: Any = weakref.finalize
    for finalizer in list(getattr(known, "_registry", ())):
        finalizer.atexit = False


def take(*, hangs: bool) -> None:
    """Do what a worker does at its end. If a step `hangs`, threads have only a moment."""
    own: Any = threading
    finalizers: Any = weakref.finalize
    shut_down = _join_some if hangs else own._shutdown
    for step in (shut_down, atexit._run_exitfuncs, finalizers._exitfunc):
        with contextlib.suppress(BaseException):  # the next step is taken all the same
            step()


def _join_some() -> None:
    stop_at_s = perf_counter() + _THREADS_END_S
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join(max(0.0, stop_at_s - perf_counter()))
