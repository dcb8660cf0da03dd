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
from typing import Any


def forget_the_parents() -> None:
    """Forget functions that the parent has registered for its end. In the child, first of all."""
    atexit._clear()
    known: Any = weakref.finalize
    for finalizer in list(getattr(known, "_registry", ())):
        finalizer.atexit = False


def take(*, hangs: bool) -> None:
    """End as a worker does. If a step `hangs`, threads are not waited for."""
    own: Any = threading
    finalizers: Any = weakref.finalize
    steps = (own._shutdown, atexit._run_exitfuncs, finalizers._exitfunc)
    for step in steps[1:] if hangs else steps:
        with contextlib.suppress(BaseException):  # the next step is taken all the same
            step()
