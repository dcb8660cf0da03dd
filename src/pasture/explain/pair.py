"""Which two processes are compared: a worker, and the process that forked it.

Found without numpy, so that nothing is installed for a process that cannot be explained.
"""

from __future__ import annotations

from pasture.errors import UsageError
from pasture.proc import smaps, tree
from pasture.proc.images import find_image, mappings_of


def find_pair(pid: int) -> tuple[int | None, int | None]:
    """Parent and worker for a pid that a user names.

    No worker if it is that of a master; no parent if it came out of an image, which is then
    compared with.

    Raises:
        ProcessEnded: there is no such process.
        NoPrivilege: there is no `/proc`, or it hides the process.
        UsageError: it was not forked by a process that still runs, and forked none; or it runs no
            Python.
    """
    tree.require_memory_of(pid)
    parent, mappings = tree.master_of(pid), mappings_of(pid)
    if parent is None:
        smaps.read_memory(pid)  # who forked a process cannot be seen where its memory cannot
        if find_image(pid, mappings) is not None:
            return None, pid
        raise UsageError(
            f"process {pid} shares its memory with no other: it was started by exec and has "
            "forked no workers",
            hint="give the pid of a worker of a pre-fork server, or of its master; "
            "a server without preloading has nothing to share",
        )
    # Those of another user cannot be read: that is said later.
    if mappings and not any("python" in mapping.path for mapping in mappings):
        raise UsageError(
            f"process {pid} runs no Python: no pre-fork server forked it",
            hint="give the pid of a worker of one, or of its master",
        )
    return parent, None if parent == pid else pid
