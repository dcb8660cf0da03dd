"""A process tree watched over time: memory, growth and page faults of each process.

Readings are frozen; growth and rates are pure functions of two of them.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from pasture.errors import ProcessEnded
from pasture.proc import smaps, tree
from pasture.proc.cgroup import Usage, read_usage
from pasture.proc.environ import read_environ
from pasture.proc.smaps import Memory
from pasture.proc.stat import read_stat
from pasture.scoreboard.layout import Entry
from pasture.scoreboard.reader import read_entries
from pasture.servers.settings import SETTINGS
from pasture.trust.untrusted_text import printable

_WINDOW_S = 60.0
_MAX_LIMIT_CHARACTERS = 30
_MIN_WINDOW_S = 5.0  # over less a rate a minute is noise


@dataclass(frozen=True, slots=True)
class Reading:
    """One process at one moment."""

    pid: int
    seconds: float  # time of the monotonic clock
    is_master: bool  # whether it forked the others
    memory: Memory
    minor_faults: int  # since the process began


@dataclass(frozen=True, slots=True)
class Row:
    """One process as it is shown."""

    pid: int
    is_master: bool
    memory: Memory
    # Growth of private memory, over the last minute at most; None in the first seconds.
    growth_bytes_a_minute: float | None
    faults_a_second: float | None  # minor page faults since the reading before; None without one
    shown: Entry | None = None  # its entry on the server's scoreboard; None if it has none

    @property
    def requests(self) -> int | None:
        """Responses sent so far, where the server says."""
        return self.shown.requests if self.shown else None

    @property
    def generation(self) -> int | None:
        """Of the mold, where the server reforks."""
        return self.shown.generation if self.shown else None

    @property
    def role(self) -> str:
        """master, mold or worker."""
        return "master" if self.is_master else self.shown.role if self.shown else "worker"


def row(readings: list[Reading], shown: Entry | None = None) -> Row:
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
    return Row(last.pid, last.is_master, last.memory, growth, faults, shown)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server's memory."""

    group: Usage | None = None  # its control group with the least room; None where none has a limit
    max_uss: str = ""  # limit of a worker's private memory, as its user gave it; "" for none


@dataclass(slots=True)
class Watch:
    """The readings of a master and its workers so far."""

    master_pid: int
    _readings: dict[int, deque[Reading]] = field(default_factory=dict)

    def limits(self) -> Limits:
        """Limits of the server's memory now."""
        max_uss = read_environ(self.master_pid).get(SETTINGS["max_uss"].variable, "")
        return Limits(read_usage(self.master_pid), printable(max_uss, _MAX_LIMIT_CHARACTERS))

    def look(self) -> tuple[Row, ...]:
        """Read all processes once more: the master, then its workers by pid.

        Raises:
            ProcessEnded: the master did.
            NoPrivilege: the processes belong to another user.
        """
        pids = (self.master_pid, *tree.workers_of(self.master_pid))
        shown = read_entries(self.master_pid)
        rows = []
        for pid in pids:
            reading = _read(pid, is_master=pid == self.master_pid)
            if reading is None:
                self._readings.pop(pid, None)
                if pid == self.master_pid:
                    raise ProcessEnded(f"process {pid} has ended", hint="give the pid of another")
                continue
            history = self._readings.setdefault(pid, deque(maxlen=240))
            history.append(reading)
            rows.append(row(list(history), shown.get(pid)))
        self._readings = {pid: kept for pid, kept in self._readings.items() if pid in pids}
        return tuple(rows)


def _read(pid: int, *, is_master: bool) -> Reading | None:
    memory, stat = smaps.read_memory(pid), read_stat(pid)
    if memory is None or stat is None:
        return None
    return Reading(pid, time.monotonic(), is_master, memory, stat.minor_faults)
