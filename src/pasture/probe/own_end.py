"""The end of a probe, which ends what the probe has started, and nothing of the parent's.

A worker waits for threads that are not daemons, then calls the functions of atexit, then weakref's
finalizers. So does a probe. The parent's functions could remove a temporary folder that workers
need. Invariant: the probe calls only functions that were registered in it.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import weakref
from time import perf_counter
from typing import Any

_THREADS_S = 0.5


def forget_the_parents() -> None:
    """Forget functions that the parent has registered for its end. In the child, first of all."""
    atexit._clear()
    known: Any = weakref.finalize
    for finalizer in list(getattr(known, "_registry", ())):
        finalizer.atexit = False


def take(*, hangs: bool) -> None:
    """End as a worker does. If a step `hangs`, so may a thread: the wait for them is short."""
    wait: Any = _wait_a_while if hangs else threading._shutdown  # type: ignore[attr-defined]
    finalizers: Any = weakref.finalize
    for step in (wait, atexit._run_exitfuncs, finalizers._exitfunc):
        with contextlib.suppress(BaseException):  # the next step is taken all the same
            step()


def _wait_a_while() -> None:
    deadline_s = perf_counter() + _THREADS_S
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join(max(deadline_s - perf_counter(), 0))
