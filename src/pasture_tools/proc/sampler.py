"""The memory of a master and its workers, at one moment and over time.

A sample is only kept if no process began to end while it was taken: shared pages of an ended
process count for those that live, so a sum over two moments can be almost twice the truth.
`sample_tree` returns None for such a reading.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from pasture.proc import smaps, tree
from pasture.proc.smaps import Memory
from pasture.proc.tree import read_again

_IDLE_PER_COST = 20
_TORN_TRIES = 50


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    pid: int
    memory: Memory


@dataclass(frozen=True, slots=True)
class Sample:
    """The memory of a master and its workers at one moment."""

    seconds: float  # time since the series began
    requests: int  # number of requests answered so far
    master: ProcessMemory  # the process that forked the workers
    workers: tuple[ProcessMemory, ...]  # ascending by pid
    # Processes that serve nothing: former workers that fork for the master, uWSGI's mules.
    others: tuple[ProcessMemory, ...] = ()

    @property
    def total_pss_bytes(self) -> int:
        """PSS of the whole tree."""
        forked = (*self.workers, *self.others)
        return self.master.memory.pss_bytes + sum(p.memory.pss_bytes for p in forked)

    @property
    def swap_pss_bytes(self) -> int:
        """Memory of the tree that was swapped out, and is missing from every other figure."""
        return self.master.memory.swap_pss_bytes + sum(
            p.memory.swap_pss_bytes for p in (*self.workers, *self.others)
        )


def sample_tree(
    master_pid: int,
    seconds: float = 0.0,
    requests: int = 0,
    *,
    workers: tuple[int, ...] | None = None,
    others: Container[int] = (),
) -> Sample | None:
    """Read a master and its workers; None if one of them began to end meanwhile.

    Args:
        workers: their pids, ascending; None for all that the master has.
        others: pids of those that serve nothing, by the server's scoreboard.

    Raises:
        NoPrivilege: the processes belong to another user.
    """
    if workers is None:
        workers = tree.workers_of(master_pid)
    read = read_together((master_pid, *workers))
    if read is None:
        return None
    serving = tuple(process for process in read[1:] if process.pid not in others)
    forking = tuple(process for process in read[1:] if process.pid in others)
    return Sample(seconds, requests, read[0], serving, forking)


def sample_until_whole(
    read: Callable[[], Sample | None], between: Callable[[], object]
) -> Sample | None:
    """A sample with workers during which no process ended; None if they end all the time."""

    def with_workers() -> Sample | None:
        sample = read()
        return sample if sample is not None and sample.workers else None

    return read_again(with_workers, _TORN_TRIES, between)


def read_together(pids: tuple[int, ...]) -> tuple[ProcessMemory, ...] | None:
    """Read several processes; None if one of them had ended or began to end meanwhile.

    Raises:
        NoPrivilege: one of the processes belongs to another user.
    """
    read = []
    for pid in pids:
        memory = smaps.read_memory(pid)
        if memory is None:
            return None
        read.append(ProcessMemory(pid, memory))
    return tuple(read) if all(smaps.has_memory(pid) for pid in pids) else None


@dataclass(slots=True)
class Series:
    """Samples over time, bounded in number and in cost.

    When full, every second sample goes and the step doubles: a run of an hour gives as
    many points as a run of a minute, evenly spread. Reading the memory of a large process
    takes milliseconds of its kernel lock, so the time between samples is also at least
    `_IDLE_PER_COST` times what the last one took.
    """

    step_s: float = 0.25  # least time between two samples
    limit: int = 400  # most samples that are kept, at least 2
    samples: list[Sample] = field(default_factory=list)
    _next_s: float = 0.0

    def is_due(self, seconds: float) -> bool:
        """Whether the next sample is due."""
        return seconds >= self._next_s

    def add(self, sample: Sample, cost_s: float = 0.0) -> None:
        """Keep a sample that took `cost_s` to read, thinning the earlier ones if too many."""
        if len(self.samples) >= self.limit:
            self.samples = self.samples[::2]
            self.step_s *= 2
        self.samples.append(sample)
        self._next_s = sample.seconds + max(self.step_s, _IDLE_PER_COST * cost_s)
