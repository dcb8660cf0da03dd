"""Which process of a server forks what serves, and the state of that server.

Owns both answers, which `doctor`, `top` and `metrics` share. Reads from outside and remembers
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pasture import off
from pasture.errors import refused
from pasture.proc import tree
from pasture.proc.maps import read_maps
from pasture.proc.stat import read_stat
from pasture.reasons import Reason
from pasture.scoreboard.layout import Entry, Snapshot
from pasture.scoreboard.reader import read_entries, read_scoreboard
from pasture.sealing.seen import SealSeen, read_seal
from pasture.trust.untrusted_text import printable
from pasture_tools.proc.environ import read_environ

Kind = Literal["sealed", "plain", "off", "without effect", "loading"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_EXTENSION = "/pasture/_native"
_MODULE = "pasture.servers."
_MAX_ANCESTORS = 20
_NEVER_WORKED = (Reason.UNSUPPORTED, Reason.BUILD, Reason.UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class State:
    """The state of a server, in the same words for all tools."""

    kind: Kind
    why: str = ""  # a sentence without a full stop; "" where the kind is enough

    def __str__(self) -> str:
        return f"{self.kind}, because {self.why}" if self.why else self.kind


LOADING = State("loading")


@dataclass(frozen=True, slots=True)
class Process:
    """Traces of pasture in the environment and the files of a process."""

    environ: Mapping[str, str]
    has_workers: bool
    has_extension: bool  # whether the process has loaded pasture's extension
    is_command: bool = False  # whether `pasture run` has started it
    program: str = ""  # file of the interpreter
    asking: int = 0  # pid of the nearest ancestor whose environment asks for a seal; 0 for none


def server_of(pid: int, command: str) -> int:
    """The server of a process that a user names: a worker, a mold, the server, one above it.

    Args:
        command: the user's command, for the hint.

    Raises:
        UsageError: several servers are below it.
    """
    stat = read_stat(pid)
    if stat is not None and pid in read_entries(stat.parent_pid):
        return stat.parent_pid
    chosen = tree.server_of(pid, command)
    return tree.master_of(chosen, forked_only=False) or chosen


def parent_of_workers(server_pid: int, entries: Mapping[int, Entry]) -> int:
    """The process that forks what serves now: a mold, a template, or the server itself.

    The scoreboard decides, else the tree of processes. The latest mold with workers counts.
    """
    found = tree.children(server_pid)
    molds = [entries[pid] for pid in found if pid in entries and entries[pid].role == "mold"]
    served = {one.generation for one in entries.values() if one.role == "worker"}
    latest = max(
        molds, key=lambda one: (one.generation in served, one.generation or 0), default=None
    )
    if latest is not None:
        return latest.pid
    return server_pid if tree.forked_workers(server_pid) else _template(found) or server_pid


def state_of(server_pid: int, board: Snapshot | None = None) -> State:
    """The state of a server, read now."""
    board = board or read_scoreboard(server_pid)
    parent = parent_of_workers(server_pid, {} if board is None else board.entries)
    return judge(read_seal(parent, board), _look(server_pid))


def judge(seal: SealSeen | None, server: Process) -> State:
    """The state by the latest seal, or without a seal by the traces of the server's process."""
    if seal is not None and seal.sealed:
        return State("sealed")
    if why := off.why(server.environ):
        return State("off", why)
    if seal is not None:
        why = seal.reason or "a step failed: its log says which"
        return State("without effect" if seal.why in _NEVER_WORKED else "plain", why)
    if not (off.is_asked_for(server.environ) or server.has_extension or server.is_command):
        if not server.asking:
            return State("plain", "nothing asks for pasture")
        why = (
            f"process {server.asking} has {off.VARIABLE}, and starts this one without the variable"
        )
        return State("without effect", why)
    if not server.has_workers:
        return LOADING
    if server.has_extension:
        return State("without effect", "nothing was sealed before the fork: its log says why")
    return State(
        "without effect",
        f"{off.VARIABLE} is set, and {printable(server.program) or 'the interpreter'} has not "
        "loaded pasture: install pasture[auto] for that interpreter, or use `pasture run`",
    )


def _look(pid: int) -> Process:
    environ, command = read_environ(pid), tree.command_of(pid)
    try:
        files = [one.path for one in read_maps(pid)]
        program = str(Path(f"/proc/{pid}/exe").readlink())
    except OSError as error:
        if refused(error) is not None:
            raise
        files, program = [], ""
    is_asked_for = off.is_asked_for(environ)
    return Process(
        environ,
        bool(tree.workers_of(pid)),
        any(_EXTENSION in file for file in files),
        any(word.startswith(_MODULE) for word in command),
        program,
        0 if is_asked_for or off.why(environ) else _asking(pid),
    )


def _asking(pid: int) -> int:
    """The nearest readable ancestor whose environment asks for a seal."""
    for _ in range(_MAX_ANCESTORS):
        stat = read_stat(pid)
        if stat is None or stat.parent_pid <= 1:
            break
        pid = stat.parent_pid
        environ = read_environ(pid)
        if off.VARIABLE in environ:
            return pid if off.is_asked_for(environ) else 0
    return 0


def _template(children: Iterable[int]) -> int | None:
    """The child that forked its siblings, as a template for spawned processes does; else None."""
    by_place: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for pid in children:
        stat = read_stat(pid)
        if stat is not None and stat.start_stack:
            place = stat.start_code, stat.start_stack
            by_place.setdefault(place, []).append((stat.start_time, pid))
    largest = max(by_place.values(), key=len, default=[])
    return min(largest)[1] if len(largest) > 1 else None
