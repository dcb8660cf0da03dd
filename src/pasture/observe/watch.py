"""A process tree watched over time: memory, growth and page faults of each process.

Readings are frozen; growth and rates are pure functions of two of them.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from pasture.errors import ProcessEnded
from pasture.metrics.board import Counts, read_one
from pasture.metrics.recorder import DIRECTORY
from pasture.observe import smaps, tree
from pasture.observe.smaps import Memory
from pasture.servers.refork.board import Entry, read_board

_MINOR_FAULTS = 7  # field of /proc/PID/stat, counted from after the command name
_WINDOW_S = 60.0
_LEAST_WINDOW_S = 5.0  # over less a rate a minute is noise


@dataclass(frozen=True, slots=True)
class Reading:
    """One process at one moment.

    Attributes:
        seconds: of the monotonic clock.
        is_master: whether it forked the others.
        minor_faults: since the process began.
    """

    pid: int
    seconds: float
    is_master: bool
    memory: Memory
    minor_faults: int


@dataclass(frozen=True, slots=True)
class Row:
    """One process as it is shown.

    Attributes:
        growth_bytes_a_minute: of private memory, over the last minute at most; None in the
            first seconds.
        faults_a_second: minor page faults since the reading before; None without one.
        shown: what a server that reforks shows of this process; None of any other.
        counted: what a worker counts for `pasture metrics`; None if it counts nothing.
    """

    pid: int
    is_master: bool
    memory: Memory
    growth_bytes_a_minute: float | None
    faults_a_second: float | None
    shown: Entry | None = None
    counted: Counts | None = None

    @property
    def requests(self) -> int | None:
        """Responses sent so far, where the server tells."""
        told = self.shown or self.counted
        return told.requests if told else None

    @property
    def role(self) -> str:
        """master, mold or worker."""
        return "master" if self.is_master else self.shown.role if self.shown else "worker"


def row(readings: list[Reading], shown: Entry | None = None, counted: Counts | None = None) -> Row:
    """What several readings of one process say, oldest first; at least one."""
    last = readings[-1]
    growth = faults = None
    if len(readings) > 1:
        first = next(r for r in readings if last.seconds - r.seconds <= _WINDOW_S)
        if last.seconds - first.seconds >= _LEAST_WINDOW_S:
            gained = last.memory.private_bytes - first.memory.private_bytes
            growth = gained * 60 / (last.seconds - first.seconds)
        before = readings[-2]
        faults = (last.minor_faults - before.minor_faults) / (last.seconds - before.seconds)
    return Row(last.pid, last.is_master, last.memory, growth, faults, shown, counted)


@dataclass(slots=True)
class Watch:
    """The readings of a master and its workers so far.

    Args:
        master_pid: of the process whose workers are watched.
    """

    master_pid: int
    _readings: dict[int, deque[Reading]] = field(default_factory=dict)

    def look(self) -> tuple[Row, ...]:
        """Read all processes once more: the master, then its workers by pid.

        Raises:
            ProcessEnded: the master did.
            NoPrivilege: the processes belong to another user.
        """
        pids = (self.master_pid, *tree.forked_workers(self.master_pid))
        shown, folder = read_board(self.master_pid), _counts_folder(self.master_pid)
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
            counted = read_one(folder, self.master_pid, pid) if folder else None
            rows.append(row(list(history), shown.get(pid), counted))
        self._readings = {pid: kept for pid, kept in self._readings.items() if pid in pids}
        return tuple(rows)


def _counts_folder(master_pid: int) -> Path | None:
    """Where a server's workers count, as its environment says; None if nowhere."""
    try:
        name = psutil.Process(master_pid).environ().get(DIRECTORY)
    except (psutil.Error, OSError):
        return None
    return Path(f"/proc/{master_pid}/cwd", name) if name else None


def _read(pid: int, *, is_master: bool) -> Reading | None:
    memory = smaps.read_memory(pid)
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if memory is None:
        return None
    faults = int(data.rpartition(b")")[2].split()[_MINOR_FAULTS])
    return Reading(pid, time.monotonic(), is_master, memory, faults)
