"""Ends what loading a module has started and left: the server adopts it when the builder ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_MAX_ROUNDS = 1000


def end_orphans(spared: Collection[int]) -> None:
    """End all children of this process, and what comes to it when they end.

    Args:
        spared: children that go on.
    """
    for _ in range(_MAX_ROUNDS):
        left = children() - set(spared)
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def children() -> set[int]:
    """Of this process; none where the kernel does not list them."""
    own = os.getpid()
    try:
        text = Path(f"/proc/{own}/task/{own}/children").read_text()
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return set()
    return {int(word) for word in text.split()}
