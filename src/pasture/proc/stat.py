"""The kernel's line on a process, `/proc/PID/stat`, and the check that a process is still the same:
pids are reused, start times are not. Source: proc_pid_stat(5).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HIGHEST_PID = 2**22
"""Source: PID_MAX_LIMIT of Linux, include/linux/threads.h."""

PROBE_NAME = "pasture-probe"
"""Name of a probe: a child of a server that is not a worker."""

_PROC = Path("/proc")
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of the kernel's include/linux/sched.h
_DEAD_STATES = frozenset("ZX")

FIRST_FIELD = 3
"""Number in the manual page of the first field of `read_fields`."""

# Positions counted from after the command name, which may itself hold spaces and brackets
# (numbers of the manual page: state 3, ppid 4, flags 9, minflt 10, cminflt 11, majflt 12, utime to
# cstime 14 to 17, starttime 22, startcode 26, startstack 28).
_STATE, _PARENT, _FLAGS = 0, 1, 6
_MINOR_FAULTS, _MINOR_FAULTS_OF_ENDED, _MAJOR_FAULTS = 7, 8, 9
_PROCESSOR_TIMES = slice(11, 15)
_START_TIME, _START_CODE, _START_STACK = 19, 23, 25
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """One process at one moment."""

    name: str  # the first 15 bytes of its program's file name, or of a name that it set
    state: str  # one letter
    parent_pid: int  # 0 if this process cannot see the parent
    flags: int  # bits, PF_ in the kernel's sources
    # minor_faults, major_faults: page faults since the process began.
    minor_faults: int
    major_faults: int
    start_time: int  # clock ticks from the machine's boot to the process's start
    # start_code, start_stack: addresses; for another user not the real ones.
    start_code: int
    start_stack: int
    minor_faults_of_ended: int = 0  # faults of children that have ended and were reaped
    processor_s: float = 0.0  # user and system time, of reaped children too

    @property
    def has_ended(self) -> bool:
        """Whether it is a zombie, which waits for its parent."""
        return self.state in _DEAD_STATES

    @property
    def is_kernel_thread(self) -> bool:
        return bool(self.flags & _KERNEL_THREAD)


def parse_stat(data: bytes) -> Stat:
    """Parse the content of a `stat` file; ValueError if it is not what the kernel writes."""
    fields = _fields(data)
    if len(fields) <= _START_STACK:
        raise ValueError("the line is too short")
    return Stat(
        name=data.rpartition(b")")[0].partition(b"(")[2].decode("utf-8", "replace"),
        state=fields[_STATE].decode("ascii", "replace"),
        parent_pid=int(fields[_PARENT]),
        flags=int(fields[_FLAGS]),
        minor_faults=int(fields[_MINOR_FAULTS]),
        major_faults=int(fields[_MAJOR_FAULTS]),
        minor_faults_of_ended=int(fields[_MINOR_FAULTS_OF_ENDED]),
        processor_s=sum(map(int, fields[_PROCESSOR_TIMES])) / _TICKS_A_SECOND,
        start_time=int(fields[_START_TIME]),
        start_code=int(fields[_START_CODE]),
        start_stack=int(fields[_START_STACK]),
    )


def _fields(data: bytes) -> list[bytes]:
    return data.rpartition(b")")[2].split()


def read_fields(pid: int, proc: Path = _PROC) -> list[bytes]:
    """All fields from the state on. OSError: the process has ended, or `/proc` hides it."""
    return _fields((proc / str(pid) / "stat").read_bytes())


def read_stat(pid: int, proc: Path = _PROC) -> Stat | None:
    """Read the line; None for a process that has ended, or that `/proc` hides from this user.

    Raises:
        OSError: this process has no descriptor or memory left for it.
    """
    try:
        return parse_stat((proc / str(pid) / "stat").read_bytes())
    except (FileNotFoundError, ProcessLookupError, PermissionError, ValueError):
        return None


def start_time(pid: int) -> int:
    """Clock ticks from the machine's boot to the process's start; 0 if /proc does not show it."""
    try:
        if Path("/proc/self").readlink().name != str(os.getpid()):
            return 0
        stat = read_stat(pid)
    except OSError:
        return 0
    return stat.start_time if stat is not None else 0


def has_ended(pid: int, started: int) -> bool:
    """Whether a process has ended for certain, by its `start_time`.

    False for one that its parent has not reaped, and for an unknown start (0).
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # another user's
    now = start_time(pid)
    return bool(started and now and now != started)
