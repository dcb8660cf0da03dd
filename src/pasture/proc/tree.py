"""Which processes belong to a server: its forked workers, and all that is below it.

Owns no memory figures and sends no signals. A process found here may have ended by the
time the caller looks at it; every answer is a snapshot.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from pasture.errors import NoPrivilege, ProcessEnded, UsageError
from pasture.proc import smaps

_PROC = Path("/proc")

# Positions in /proc/PID/stat counted from after the command name, which may itself hold
# spaces and brackets (proc_pid_stat(5) numbers: state 3, flags 9, startcode 26, startstack 28).
_STATE, _FLAGS, _START_CODE, _START_STACK = 0, 6, 23, 25
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of the kernel's include/linux/sched.h
_DEAD_STATES = frozenset("ZX")


def forked_workers(master_pid: int) -> tuple[int, ...]:
    """Pids of the children that a master forked and that run no other program, ascending.

    A child that was started with exec (a resource tracker, a shell) has an address space
    of its own and shares nothing with the master, so it is no worker.
    """
    try:
        children = psutil.Process(master_pid).children()
    except psutil.Error:
        return ()
    image = _image(master_pid)
    return tuple(sorted(child.pid for child in children if _image(child.pid) == image))


def descendants(pid: int) -> tuple[int, ...]:
    """Pids of all living processes below a process, zombies left out, ascending.

    A zombie holds no memory and runs no code; where nobody reaps orphans it stays for
    ever, and would make every wait for the end of a tree endless.
    """
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return ()
    return tuple(sorted(child.pid for child in found if is_running(child.pid)))


def require_memory_of(pid: int, proc: Path = _PROC) -> None:
    """Check that there is a process to look at, and that it has memory of its own.

    Raises:
        NoPrivilege: there is no `/proc`, or it hides the process.
        ProcessEnded: there is no such process, or it has ended and is a zombie.
        UsageError: it is a thread of the kernel.
    """
    smaps.require_smaps_rollup(proc)
    fields = _stat_fields(pid, proc)
    if not fields:
        raise _hidden_or_gone(pid)
    if fields[_STATE] in _DEAD_STATES:
        raise ProcessEnded(
            f"process {pid} has ended and only waits for its parent (a zombie)",
            hint="give the pid of another",
        )
    if int(fields[_FLAGS]) & _KERNEL_THREAD:
        raise UsageError(
            f"process {pid} is a thread of the kernel", hint="give the pid of a server's master"
        )


def _hidden_or_gone(pid: int) -> NoPrivilege | ProcessEnded:
    try:
        os.kill(pid, 0)  # signal 0 is none
    except (ProcessLookupError, OverflowError):
        return ProcessEnded(f"there is no process {pid}", hint="give the pid of another")
    except OSError:
        pass
    return NoPrivilege(
        f"/proc hides process {pid} from this user",
        hint="run pasture as its user or as root; /proc is mounted with hidepid",
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
    """Empty for a process that is gone, or that `/proc` hides from this user."""
    try:
        data = (proc / str(pid) / "stat").read_bytes()
    except OSError:
        return []
    return data.rpartition(b")")[2].decode("ascii", "replace").split()


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


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
