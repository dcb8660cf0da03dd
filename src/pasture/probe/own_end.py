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
from typing import Any


def forget_the_parents() -> None:
    """Leave to the parent what it has registered for its end. In the child, first of all."""
    atexit._clear()
    known: Any = weakref.finalize
    for finalizer in list(getattr(known, "_registry", ())):
        finalizer.atexit = False


def take(*, waits: bool) -> None:
    """Do what a worker does at its end.

    Args:
        waits: for threads that are no daemons; not for those of a probe that hangs.
    """
    own: Any = threading
    finalizers: Any = weakref.finalize
    # Each goes on where the one before has failed.
    for step in (own._shutdown if waits else None, atexit._run_exitfuncs, finalizers._exitfunc):
        with contextlib.suppress(BaseException):
            if step is not None:
                step()
