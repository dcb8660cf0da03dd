"""Which two processes are compared: a worker, and the process that forked it."""

from __future__ import annotations

import psutil

from pasture.errors import ProcessEnded, UsageError
from pasture.proc import smaps, tree
from pasture.proc.address_space import ended
from pasture.scoreboard import reader


def find_pair(pid: int) -> tuple[int, int | None]:
    """Parent and worker for a pid that a user names; no worker if it is that of a master.

    Raises:
        ProcessEnded: there is no such process.
        NoPrivilege: there is no `/proc`, or it hides the process.
        UsageError: it was not forked by a process that still runs, and forked none.
    """
    tree.require_memory_of(pid)
    if tree.forked_workers(pid):
        return pid, None
    try:
        parent = psutil.Process(pid).ppid()
    except psutil.NoSuchProcess:
        raise ended(pid) from None
    if pid in tree.forked_workers(parent):
        return parent, pid
    raise UsageError(
        f"process {pid} shares its memory with no other: it was started by exec and has forked "
        "no workers",
        hint="give the pid of a worker of a pre-fork server, or of its master; "
        "a server without preloading has nothing to share",
    )


def largest_worker(parent_pid: int) -> int:
    """The worker of a master that has the most private memory.

    Raises:
        ProcessEnded: it has none, or they are ending.
    """
    shown = reader.read_entries(parent_pid)
    workers = [
        pid
        for pid in tree.forked_workers(parent_pid)
        if pid not in shown or shown[pid].role == "worker"
    ]
    sizes = {w: m.private_bytes for w in workers if (m := smaps.read_memory(w)) is not None}
    if not sizes:
        raise ProcessEnded(
            f"process {parent_pid} has no workers any more", hint="wait until it forks some"
        )
    return max(sizes, key=lambda worker: sizes[worker])
