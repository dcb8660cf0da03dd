"""Ends what loading a module has started and left: this process adopts it when the builder ends."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from pasture.proc.tree import children

_MAX_ROUNDS = 1000


def end_orphans() -> None:
    """End all children of this process, and what comes to it when they end."""
    for _ in range(_MAX_ROUNDS):
        left = set(children(os.getpid()))
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
