"""Which processes belong to a server: its forked workers, and its whole session.

Owns no memory figures and sends no signals. A process found here may have ended by the
time the caller looks at it; every answer is a snapshot.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

_PROC = Path("/proc")

# Positions in /proc/PID/stat counted from after the command name, which may itself hold
# spaces and brackets (proc_pid_stat(5) numbers: state 3, startcode 26, startstack 28).
_STATE, _START_CODE, _START_STACK = 0, 23, 25
_DEAD_STATES = frozenset("ZX")


def forked_workers(master_pid: int) -> tuple[int, ...]:
    """Pids of the children that a master forked and that run no other program, ascending.

    A child that was started with exec (a resource tracker, a shell) has an address space
    of its own and shares nothing with the master, so it is no worker.
    """
    try:
        children = psutil.Process(master_pid).children()
    except psutil.NoSuchProcess:
        return ()
    image = _image(master_pid)
    return tuple(sorted(child.pid for child in children if _image(child.pid) == image))


def session_members(session_id: int) -> tuple[int, ...]:
    """Pids of all living processes of a session, zombies left out, ascending.

    A zombie holds no memory and runs no code; where nobody reaps orphans it stays for
    ever, and would make every wait for the end of a session endless.
    """
    return tuple(
        pid for pid in sorted(psutil.pids()) if _session(pid) == session_id and is_running(pid)
    )


def processes_with(name: str, value: str) -> tuple[int, ...]:
    """Pids of living processes that have a variable in their environment, ascending.

    Finds what left its session, as a daemon does. Not what belongs to another user, nor
    what overwrote its environment.
    """
    wanted = f"{name}={value}".encode()
    return tuple(
        pid for pid in sorted(psutil.pids()) if wanted in _environment(pid) and is_running(pid)
    )


def is_running(pid: int, proc: Path = _PROC) -> bool:
    """Say whether a process exists and is no zombie."""
    fields = _stat_fields(pid, proc)
    return bool(fields) and fields[_STATE] not in _DEAD_STATES


def _image(pid: int) -> tuple[str, ...]:
    """What a process inherits in a fork and loses in an exec: where code and stack begin.

    Both are at random places after each exec. Empty for a process that has ended.
    """
    fields = _stat_fields(pid, _PROC)
    return (fields[_START_CODE], fields[_START_STACK]) if fields else ()


def _stat_fields(pid: int, proc: Path) -> list[str]:
    try:
        text = (proc / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def find_masters() -> tuple[int, ...]:
    """Pids of Python processes that have forked workers and are none themselves, ascending.

    Of this user's processes; of all users' for root.
    """
    parents = {}
    for process in psutil.process_iter(["pid", "ppid", "name", "exe"]):
        if "python" in f"{process.info['name']}{process.info['exe'] or ''}":
            parents[process.info["pid"]] = process.info["ppid"]
    forked = {
        pid: parent
        for pid, parent in parents.items()
        if parent in parents and _image(pid) and _image(pid) == _image(parent)
    }
    masters = set(forked.values()) - set(forked)
    return tuple(sorted(master for master in masters if master != os.getpid()))
