"""A line at the exit of a process that was sealed, and whose workers were started without a fork.

A start method of multiprocessing that spawns, or that forks from a server, shares nothing of the
process that was sealed. Owns noticing that. Says nothing in a process that forked, or started none.
"""

from __future__ import annotations

import atexit
import os
import sys

from pasture.log_lines import log

_STARTING = ("multiprocessing.popen_forkserver", "multiprocessing.popen_spawn_posix")

_watched: set[int] = set()
"""Pid of the process that was sealed and has not forked since."""


def watch() -> None:
    """Look at the exit whether this process, which is sealed, has forked. Once is enough."""
    if not _watched:
        _watched.add(os.getpid())
        os.register_at_fork(after_in_parent=_watched.clear)
        atexit.register(_complain)


def _complain() -> None:
    if os.getpid() in _watched and any(name in sys.modules for name in _STARTING):
        log.warning(
            "no process was forked from what was sealed: multiprocessing started its processes "
            "otherwise. Use `with pasture.sealed() as workers`, whose context forks, or "
            "multiprocessing.set_start_method('fork')"
        )
