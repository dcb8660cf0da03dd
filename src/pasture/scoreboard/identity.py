"""Whether a process is still the one that it was: a pid comes around again, its start does not."""

from __future__ import annotations

import os
from pathlib import Path

from pasture.proc.stat import read_stat

HIGHEST_PID = 2**22
"""Source: PID_MAX_LIMIT of Linux, include/linux/threads.h."""


def start_time(pid: int) -> int:
    """Clock ticks from the machine's boot to the process's start; 0 if that cannot be told.

    It cannot where /proc is missing or shows another namespace of pids than this process's.
    """
    try:
        if Path("/proc/self").readlink().name != str(os.getpid()):
            return 0
    except OSError:
        return 0
    stat = read_stat(pid)
    return stat.start_time if stat is not None else 0


def has_ended(pid: int, started: int) -> bool:
    """Whether a process is gone for certain. One that nobody has waited for yet is not.

    Args:
        started: its `start_time`; 0 if that is not known.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # of another user
    now = start_time(pid)
    return bool(started and now and now != started)
