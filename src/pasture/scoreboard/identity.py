"""Whether a process is still the one that it was: a pid comes around again, its start does not.

Source: proc_pid_stat(5), field 22.
"""

from __future__ import annotations

import os
from pathlib import Path

HIGHEST_PID = 2**22
"""Source: PID_MAX_LIMIT of Linux, include/linux/threads.h."""

_START_TIME = 19  # counted from after the command name


def start_time(pid: int) -> int:
    """Clock ticks from the machine's boot to the process's start; 0 if that cannot be told.

    It cannot where /proc is missing or shows another namespace of pids than this process's.
    """
    try:
        if Path("/proc/self").readlink().name != str(os.getpid()):
            return 0
        data = Path(f"/proc/{pid}/stat").read_bytes()
        return int(data.rpartition(b")")[2].split()[_START_TIME])
    except (OSError, ValueError, IndexError):
        return 0


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
