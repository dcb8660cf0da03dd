"""The environment with which a process began: `/proc/PID/environ`.

Standard library alone. Source: proc_pid_environ(5).
"""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def read_environ(pid: int, proc: Path = _PROC) -> dict[str, str]:
    """Variables by name; none if the process is gone or belongs to another user.

    Neither what the process has set since then is in it, nor what it overwrote.
    """
    try:
        data = (proc / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    found: dict[str, str] = {}
    for entry in os.fsdecode(data).split("\0"):
        name, equals, value = entry.partition("=")
        if equals:
            found.setdefault(name, value)  # getenv(3) finds the first of a name
    return found
