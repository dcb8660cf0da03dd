"""A process tree watched over time: memory, growth and page faults of each process.

Readings are frozen; growth and rates are pure functions of two of them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePath

from pasture.errors import ProcessEnded
from pasture.proc import smaps, tree
from pasture.proc.cgroup import Usage, read_usage
from pasture.proc.maps import Mapping
from pasture.proc.smaps import Memory
from pasture.proc.stat import read_stat
from pasture.scoreboard.layout import Entry
from pasture.scoreboard.reader import read_entries, roles_of
from pasture.sealing.seen import read_seal
from pasture.serving.settings import SETTINGS
from pasture.trust.untrusted_text import printable
from pasture_tools.doctor.server import parent_of_workers, state_of
from pasture_tools.doctor.trouble import is_locked
from pasture_tools.proc.environ import read_environ
from pasture_tools.proc.images import programs_of

_WINDOW_S = 60.0
_MAX_LIMIT_CHARACTERS = 30
_MAX_COMMAND_CHARACTERS = 60
_MIN_WINDOW_S = 5.0  # a rate over a shorter time is noise


@dataclass(frozen=True, slots=True)
class Reading:
    """One process at one moment."""

    pid: int
    seconds: float  # time of the monotonic clock
    is_master: bool  # whether it is the master
    memory: Memory
    minor_faults: int  # faults since the process began
    is_locked: bool = False  # whether it waits for a lock, and cannot go on


@dataclass(frozen=True, slots=True)
class Row:
    """One process as it is shown."""

    pid: int
    is_master: bool
    memory: Memory
    # Growth of private memory, over the last minute at most; None in the first seconds.
    growth_bytes_a_minute: float | None
    faults_a_second: float | None  # minor page faults since the reading before; None without one
    shown: Entry | None = None  # its entry on the server's scoreboard, or None
    command: str = ""  # command of a program out of an image; else ""
    without_entry: str = "worker"  # its role if it is not the master and has no entry: "other", too
    is_locked: bool = False  # whether it was stuck at the last two readings

    @property
    def requests(self) -> int | None:
        """Responses sent so far, where the server counts them."""
        return self.shown.requests if self.shown else None

    @property
    def generation(self) -> int | None:
        """The mold's generation, where the server reforks."""
        return self.shown.generation if self.shown else None

    @property
    def role(self) -> str:
        """program (out of an image), master, worker, mold, mule, spooler or other."""
        if self.command:
            return "program"
        if self.is_master:
            return "master"
        return self.shown.role if self.shown else self.without_entry


def row(
    readings: list[Reading],
    shown: Entry | None = None,
    command: str = "",
    without_entry: str = "worker",
) -> Row:
    """The row of one process, from several readings, oldest first; at least one."""
    last = readings[-1]
    growth = faults = None
    if len(readings) > 1:
        first = next(r for r in readings if last.seconds - r.seconds <= _WINDOW_S)
        if last.seconds - first.seconds >= _MIN_WINDOW_S:
            gained = last.memory.private_bytes - first.memory.private_bytes
            growth = gained * 60 / (last.seconds - first.seconds)
        before = readings[-2]
        faults = (last.minor_faults - before.minor_faults) / (last.seconds - before.seconds)
    locked = len(readings) > 1 and all(reading.is_locked for reading in readings[-2:])
    return Row(
        last.pid, last.is_master, last.memory, growth, faults, shown, command, without_entry, locked
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server's memory, and what else endangers its workers."""

    group: Usage | None = None  # its control group with the least room; None without a limit
    max_uss: str = ""  # limit of a worker's private memory, as its user gave it; "" for none
    hazards: tuple[str, ...] = ()  # hazards that its seal found
    is_sealed: bool = False
    state: str = ""  # state of the server; "" for programs out of an image
    parent_pid: int = 0  # the process that forks what serves; 0 for the master
    dead: str = ""  # a sentence on sealed and unused memory, if that is much


class _Readings:
    """The readings of processes so far."""

    def __init__(self) -> None:
        self._kept: dict[int, deque[Reading]] = {}

    def more(
        self, pids: Iterable[int], masters: Collection[int], shown: dict[int, Entry]
    ) -> dict[int, list[Reading]]:
        """Read processes again; returns all readings of those that still run, in that order."""
        found: dict[int, deque[Reading]] = {}
        for pid in pids:
            memory, stat = smaps.read_memory(pid), read_stat(pid)
            if memory is None or stat is None:
                continue
            locked, now = is_locked(pid, shown.get(pid)), time.monotonic()
            found[pid] = self._kept.get(pid, deque(maxlen=240))
            found[pid].append(Reading(pid, now, pid in masters, memory, stat.minor_faults, locked))
        self._kept = found
        return {pid: list(readings) for pid, readings in found.items()}


class Watch:
    """A master and its workers."""

    def __init__(self, master_pid: int) -> None:
        self.master_pid = master_pid
        self.title = str(master_pid)
        self._readings = _Readings()

    def limits(self) -> Limits:
        """Limits of the server's memory now."""
        max_uss = read_environ(self.master_pid).get(SETTINGS["max_uss"].variable, "")
        parent = parent_of_workers(self.master_pid, read_entries(self.master_pid))
        seal = read_seal(parent, None)
        return Limits(
            read_usage(self.master_pid),
            printable(max_uss, _MAX_LIMIT_CHARACTERS),
            () if seal is None else tuple(map(str, seal.breaking)),
            seal is not None and seal.sealed,
            f"{state_of(self.master_pid)}",
            parent,
            "" if seal is None else seal.dead,
        )

    def look(self) -> tuple[Row, ...]:
        """Read all processes again: the master, then its workers by pid.

        Raises:
            ProcessEnded: the master has ended.
            NoPrivilege: the processes belong to another user.
        """
        pids = (self.master_pid, *tree.workers_of(self.master_pid))
        shown = read_entries(self.master_pid)
        readings = self._readings.more(pids, pids[:1], shown)
        if self.master_pid not in readings:
            raise ProcessEnded(
                f"process {self.master_pid} has ended", hint="give the pid of another process"
            )
        roles = roles_of(pids[1:], shown)
        return tuple(
            row(kept, shown.get(pid), without_entry=roles.get(pid, "worker"))
            for pid, kept in readings.items()
        )


class ImageWatch:
    """All programs out of one image, and their forked children."""

    def __init__(self, image: Mapping) -> None:
        self.master_pid = None
        self.title = PurePath(image.path.removesuffix(" (deleted)")).name
        self._image = image
        self._readings = _Readings()

    def limits(self) -> Limits:
        """None: each program may have its own group."""
        return Limits()

    def look(self) -> tuple[Row, ...]:
        """Read all processes again, by pid.

        Raises:
            ProcessEnded: no program is left.
        """
        parents = {pid: stat.parent_pid for pid, stat in tree.pythons()}
        pids = programs_of(self._image, parents)
        readings = self._readings.more(pids, (), {})
        if not readings:
            raise ProcessEnded(
                f"no program runs out of {self.title}",
                hint="only root sees programs of another user",
            )
        commands = {
            pid: printable(" ".join(tree.command_of(pid)), _MAX_COMMAND_CHARACTERS) or "?"
            for pid in readings
            if parents[pid] not in pids
        }
        return tuple(row(kept, command=commands.get(pid, "")) for pid, kept in readings.items())
