"""Ends what loading a module has started and left: the server adopts it when the builder ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress

from pasture.proc.tree import children

_MAX_ROUNDS = 1000


def end_orphans(spared: Collection[int]) -> None:
    """End all children of this process, and what comes to it when they end.

    Args:
        spared: children that go on.
    """
    for _ in range(_MAX_ROUNDS):
        left = set(children(os.getpid())) - set(spared)
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
