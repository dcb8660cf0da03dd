"""The two processes that are compared, and what is known of the parent before its memory is read.

Where the parent's snapshot or interpreter is unknown, the report says what is missing.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from pasture.errors import ProcessEnded, UsageError
from pasture.interpreter import Fields
from pasture.interpreter import fields as own_fields
from pasture.proc import smaps, tree
from pasture.proc.cgroup import read_usage
from pasture.proc.maps import python_version
from pasture.scoreboard import reader
from pasture.scoreboard.layout import Entry
from pasture.sealing import snapshot as snapshot_file
from pasture.sealing.seen import SealSeen, read_seal
from pasture.servers import engines
from pasture.trust.foreign_files import user_of
from pasture.trust.untrusted_text import printable
from pasture_tools.doctor import trouble
from pasture_tools.explain.snapshot import Snapshot, open_snapshot
from pasture_tools.proc.address_space import AddressSpace
from pasture_tools.proc.environ import read_environ
from pasture_tools.proc.image_space import ImageSpace
from pasture_tools.proc.images import find_image, mappings_of

_WITHOUT_SNAPSHOT = (
    "no heap snapshot: objects are recognised by their type pointers, without owners, and the "
    "storage of dictionaries and lists is not separated from other memory"
)


def find_pair(pid: int) -> tuple[int | None, int | None]:
    """Parent and worker for a pid that a user names.

    The worker is None for the pid of a master. The parent is None for a program out of an image: it
    is compared with its image.

    Raises:
        ProcessEnded: the process does not exist.
        NoPrivilege: `/proc` is missing or hides the process.
        UsageError: it was not forked by a process that still runs, and forked none; or it does not
        run Python.
    """
    tree.require_memory_of(pid)
    parent, mappings = tree.master_of(pid), mappings_of(pid)
    if parent is None:
        smaps.read_memory(pid)  # who forked a process cannot be seen where its memory cannot
        if find_image(pid, mappings) is not None:
            return None, pid
        raise UsageError(
            f"process {pid} shares its memory with no process: it was started by exec and has "
            "not forked",
            hint="give the pid of a worker of a pre-fork server, or of its master; "
            "a server without preloading has nothing to share",
        )
    # Another user's mappings cannot be read: a later error says so.
    if mappings and not any("python" in mapping.path for mapping in mappings):
        raise UsageError(
            f"process {pid} does not run Python",
            hint="give the pid of a worker of a pre-fork server, or of its master",
        )
    return parent, None if parent == pid else pid


def largest_worker(parent_pid: int) -> int:
    """The worker of a master that has the most private memory.

    Raises:
        ProcessEnded: it has no workers, or they are ending.
    """
    shown = reader.read_entries(parent_pid)
    workers = reader.workers_among(tree.forked_workers(parent_pid), shown)
    sizes = {w: m.private_bytes for w in workers if (m := smaps.read_memory(w)) is not None}
    if not sizes:
        raise ProcessEnded(
            f"process {parent_pid} has no workers", hint="wait until it forks a worker"
        )
    return max(sizes, key=lambda worker: sizes[worker])


@dataclass(frozen=True, slots=True)
class Server:
    """Facts of a server and one of its workers, from the scoreboard or the command."""

    # Name of the policy that it was sealed with; None if it was not, or by an unknown one.
    policy: str | None
    requests: int | None  # answered by the worker; None where the server does not say
    is_asgi: bool  # whether it is a server for ASGI
    warms_up: bool  # whether it serves web requests, for which there is a warm-up
    entry: Entry | None = None  # the worker's, on the scoreboard
    dangers: tuple[str, ...] = ()  # what else endangers it, the most urgent first
    hazards: tuple[str, ...] = ()  # what its seal found that does not survive a fork


OF_AN_IMAGE = Server("seal", None, is_asgi=False, warms_up=False)
"""A program out of an image, which was sealed when it was made."""


def look_at_server(server_pid: int, worker_pid: int) -> Server:
    """Read a server's scoreboard, or what its command says."""
    board = reader.read_scoreboard(server_pid)
    seal = board.seal if board is not None else None
    entry = board.entries.get(worker_pid) if board is not None else None
    serves = reader.served_by(server_pid, board, engines.ASGI, engines.WEB)
    parent = reader.forked_by(worker_pid, server_pid)
    found = read_seal(parent, board)
    return Server(
        policy=printable(seal.policy) if seal is not None and seal.sealed else None,
        requests=entry.requests if entry is not None else None,
        is_asgi=serves == "asgi",
        warms_up=bool(serves),
        entry=entry,
        dangers=_dangers(parent, worker_pid, entry, found),
        hazards=() if found is None else tuple(map(str, found.breaking)),
    )


def _dangers(
    parent_pid: int, worker_pid: int, entry: Entry | None, seal: SealSeen | None
) -> tuple[str, ...]:
    """All dangers except growth, which the explanation measures."""
    master, memory = smaps.read_memory(parent_pid), smaps.read_memory(worker_pid)
    if master is None or memory is None:
        return ()
    is_sealed = seal is not None and seal.sealed
    worker = trouble.Worker(worker_pid, memory, entry, trouble.is_locked(worker_pid, entry))
    found = trouble.troubles(master, (worker,), read_usage(parent_pid), is_sealed=is_sealed)
    return tuple(
        one.what if one.kind == "sharing" else str(one) for one in found if one.kind != "leak"
    )


@dataclass(frozen=True, slots=True)
class Sources:
    """Snapshot and interpreter that a classifier works with."""

    snapshot: Snapshot | None  # open; None without one
    fields: Fields | None  # offsets of the parent's interpreter; None if they are not known
    same_version: bool  # whether it is the version that runs this
    missing: tuple[str, ...]  # what stays unknown without them, one sentence each
    # Major and minor version of the parent's interpreter; None if it is not known.
    version: tuple[int, int] | None = None


def find_sources(parent: AddressSpace, asked: Path | None) -> Sources:
    """Look for the snapshot that is asked for, or that the parent's environment names.

    Raises:
        UsageError: the snapshot that was asked for cannot be used.
    """
    snapshot, missing = _find_snapshot(parent, asked)
    version = python_version(mapping.path for mapping in parent.mappings)
    if snapshot:
        version = snapshot.hexversion >> 24, snapshot.hexversion >> 16 & 255
    same = version == sys.version_info[:2]
    if not same:
        missing = (*missing, _of_another_version(version, snapshot))
    if snapshot:
        return Sources(snapshot, snapshot.fields, same, missing, version)
    fields = own_fields() if same else None
    return Sources(None, fields, same, missing, version)


def _of_another_version(version: tuple[int, int] | None, snapshot: Snapshot | None) -> str:
    shown = f"{version[0]}.{version[1]}" if version else "of an unknown version"
    lost = (
        "counters of code are not separated from its caches"
        if snapshot
        else "its objects cannot be recognised; use a pasture on the same version"
    )
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"the process runs Python {shown}, pasture runs {own}: {lost}"


def _find_snapshot(
    parent: AddressSpace, asked: Path | None
) -> tuple[Snapshot | None, tuple[str, ...]]:
    """The snapshot to use, and what is missing without one."""
    parent_pid = parent.pid
    if isinstance(parent, ImageSpace):
        if asked:
            raise UsageError("an image has no heap snapshot", hint="remove --snapshot")
        return None, (_WITHOUT_SNAPSHOT,)
    if asked:
        return _snapshot_of(parent_pid, asked), ()
    named = snapshot_file.path_for(parent_pid, read_environ(parent_pid))
    missing = (
        f"{_WITHOUT_SNAPSHOT}; start the server with PASTURE_SNAPSHOT=/path/{{pid}} for more",
    )
    if named is None:
        return None, missing
    path = Path(f"/proc/{parent_pid}/cwd") / named  # a relative one is the parent's
    try:
        return (_snapshot_of(parent_pid, path), ()) if os.path.lexists(path) else (None, missing)
    except UsageError as error:
        return None, (error.message, *missing)


def _snapshot_of(parent_pid: int, path: Path) -> Snapshot:
    snapshot = open_snapshot(path, owners=user_of(parent_pid))
    if snapshot.pid != parent_pid:
        raise UsageError(
            f"{path} is the heap snapshot of process {snapshot.pid}, not of {parent_pid}",
            hint="give the file that this worker's parent wrote",
        )
    return snapshot
