"""The end of objects from before a fork: the process that made them ends them, once.

A worker of plain xdist deletes at its exit the temporary folders that its modules made when they
were imported. Forked workers have the folders of the mold, so the functions of `atexit` and
`weakref.finalize` that they inherit stay with the mold, which ends after its workers. The mold
leaves those of the controller to the controller.
"""

from __future__ import annotations

import atexit
import logging
import sys
import weakref
from typing import Any

from pasture.probe import own_end


def leave_to_parent() -> None:
    """Forget the parent's functions for its exit. In a child, right after the fork."""
    own_end.forget_the_parents()
    finalizers: Any = weakref.finalize
    atexit.register(finalizers._exitfunc)
    atexit.register(logging.shutdown)
    if (processes := sys.modules.get("multiprocessing.util")) is not None:
        atexit.register(processes._exit_function)
