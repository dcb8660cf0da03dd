"""The end of a server, measured: how long it takes and what it costs in memory.

A worker that finalizes its interpreter writes to almost every object and so un-shares
almost every page; the peak of total PSS while a server stops shows it. Readings are taken
about half of the time, so that measuring leaves the processes room to end.
"""

from __future__ import annotations

import time

from pasture.launch.session import Group
from pasture.proc import smaps
from pasture.proc.sampler import read_together
from pasture.trial.measurement import Shutdown
from pasture.trial.server import Pause

_MIN_PAUSE_S = 0.005
_TIMEOUT_S = 90.0  # gunicorn gives its workers 30 s, a service manager usually 90 s


def stop_and_measure(group: Group, pause: Pause, timeout_s: float = _TIMEOUT_S) -> Shutdown:
    """Send SIGTERM to a master and watch until all processes of its session have ended.

    Raises:
        NoPrivilege: the processes belong to another user.
    """
    pids = group.members()
    start_pss_bytes = peak_pss_bytes = _total_pss_bytes(_with_memory(pids)) or 0
    samples = 0
    workers_seconds = None
    start = time.monotonic()
    group.terminate()
    while group.exit_code() is None or group.members():
        began = time.monotonic()
        if began - start > timeout_s:
            group.end()
            break
        left = _with_memory(pids)
        if workers_seconds is None and set(left) <= {group.pid}:
            workers_seconds = began - start
        total = _total_pss_bytes(left)
        if total is not None:
            samples += 1
            peak_pss_bytes = max(peak_pss_bytes, total)
        pause(max(_MIN_PAUSE_S, time.monotonic() - began))
    seconds = time.monotonic() - start
    by_itself = seconds <= timeout_s
    return Shutdown(
        seconds,
        start_pss_bytes,
        peak_pss_bytes,
        samples,
        seconds if workers_seconds is None else workers_seconds,
        by_itself,
    )


def _with_memory(pids: tuple[int, ...]) -> tuple[int, ...]:
    """Those that still hold memory."""
    return tuple(pid for pid in pids if smaps.has_memory(pid))


def _total_pss_bytes(pids: tuple[int, ...]) -> int | None:
    """Their sum; None if one began to end meanwhile."""
    read = read_together(pids)
    return sum(process.memory.pss_bytes for process in read) if read is not None else None
