"""A server's scoreboard, read from outside: found among its open files, and never written.

`pasture.proc.memory_file` finds it, and only numbers and a few printable characters are read.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pasture.proc import memory_file, tree
from pasture.proc.stat import read_stat
from pasture.scoreboard import layout
from pasture.scoreboard.layout import Entry, Snapshot, understand

_PROC = Path("/proc")
_TRIES = 50
_SEALS = memory_file.SEAL_SHRINK | memory_file.SEAL_GROW
_MAX_BYTES = 2**20


def read_scoreboard(server_pid: int, proc: Path = _PROC) -> Snapshot | None:
    """The scoreboard of a server, or None if it cannot be read. Takes a millisecond."""
    for file in memory_file.find(server_pid, layout.NAME, _SEALS, proc):
        with contextlib.suppress(OSError, ValueError):
            snapshot = _read(file)
            if snapshot is not None:
                return _translated(snapshot, server_pid, proc)
    return None


def read_entries(server_pid: int) -> dict[int, Entry]:
    """The row of each process of a server, by pid; empty for a server without a scoreboard."""
    snapshot = read_scoreboard(server_pid)
    return snapshot.entries if snapshot is not None else {}


def roles_of(pids: Iterable[int], entries: Mapping[int, Entry]) -> dict[int, str]:
    """The role of each child of a server, by its row on the scoreboard: a worker, a mold, a mule.

    "other" is a child without a row next to children with one, such as uWSGI's HTTP router. If no
    child has a row, or rows may be lacking, all are workers.
    """
    children = tuple(pids)
    counted = any(pid in entries for pid in children) and len(entries) < layout.ROWS
    without = "other" if counted else "worker"
    return {pid: entries[pid].role if pid in entries else without for pid in children}


def workers_among(pids: Iterable[int], entries: Mapping[int, Entry]) -> tuple[int, ...]:
    """The workers among a server's children, in order."""
    return tuple(pid for pid, role in roles_of(pids, entries).items() if role == "worker")


def served_by(
    server_pid: int, board: Snapshot | None, asgi: Iterable[str], web: Iterable[str]
) -> str:
    """The requests that a server serves: "asgi", "web" or "", by its scoreboard.

    Without an entry its command decides, if it names a known server. A program that starts a server
    itself has another command.
    """
    said = board.seal.serves if board is not None and board.seal is not None else ""
    if said in ("asgi", "web"):
        return said
    if tree.serves_asgi(server_pid, asgi):
        return "asgi"
    counts = board is not None and any(entry.says_requests for entry in board.entries.values())
    return "web" if counts or tree.serves_requests(server_pid, web) else ""


def forked_by(worker_pid: int, server_pid: int) -> int:
    """Pid of a worker's mold, if that still runs, or else of its server. From outside."""
    entries = read_entries(server_pid)
    worker = entries.get(worker_pid)
    if worker is None:
        return server_pid
    for mold in entries.values():
        if mold.role == "mold" and mold.generation == worker.generation:
            # A worker can write any pid: the kernel knows the server's children.
            stat = read_stat(mold.pid)
            if stat is not None and stat.parent_pid == server_pid:
                return mold.pid
    return server_pid


def copy_of(words: memoryview) -> Snapshot | None:
    """A scoreboard that this process has inherited; None if it changed during all tries."""
    for _ in range(_TRIES):
        before = words[layout.COMMITS]
        copy = memoryview(words.tobytes()).cast("Q")
        if words[layout.COMMITS] == before == copy[layout.COMMITS]:
            return understand(copy)
    return None


def _read(file: int) -> Snapshot | None:
    size = os.fstat(file).st_size
    if size % layout.ROW_BYTES or not layout.FIRST_ROW * layout.ROW_BYTES <= size <= _MAX_BYTES:
        return None
    for _ in range(_TRIES):
        before = _words(file, layout.ROW_BYTES)
        words = _words(file, size)
        if words[layout.MAGIC_AT] != layout.MAGIC:
            return None
        after = _words(file, layout.ROW_BYTES)
        if before[layout.COMMITS] == words[layout.COMMITS] == after[layout.COMMITS]:
            return understand(words)
    return None


def _words(file: int, size: int) -> memoryview:
    data = os.pread(file, size, 0)
    if len(data) != size:
        raise OSError("the memory was cut short")
    return memoryview(data).cast("Q")


def _translated(snapshot: Snapshot, server_pid: int, proc: Path) -> Snapshot:
    """The entries with pids of this process's namespace. Source: proc_pid_status(5), NSpid."""
    mine, its = (proc / name / "ns" / "pid" for name in ("self", str(server_pid)))
    if not mine.is_symlink() or mine.readlink() == its.readlink():
        return snapshot
    entries = {}
    for pid in tree.children(server_pid, proc):
        inner = int(memory_file.status_of(proc / str(pid), "NSpid")[-1])
        if inner in snapshot.entries:
            entries[pid] = replace(snapshot.entries[inner], pid=pid)
    return replace(snapshot, entries=entries)
