"""What a worker counts for others to read: one small file a process, mapped into memory.

Owns the layout of the file, and the sum over workers that have ended. Invariant: a figure
of a whole server never falls, so an ended worker's file is added to the sum's before it is
removed, both under one lock. Writing costs a few stores; no figure is ever half written.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GENERATIONS = 3
PAUSE_BOUNDS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
"""Upper bounds of the pause histogram's buckets; a last one has none."""

_MAGIC = 0x31_44_52_41_4F_42_5A_50
_WORD = 8

# Positions in words.
MAGIC = 0
STARTS = 1
RECYCLES = 2
PRIVATE_AT_START = 3
COLLECTIONS = 4
COLLECTED = COLLECTIONS + GENERATIONS
PAUSES = COLLECTED + GENERATIONS
PAUSE_NS = PAUSES + len(PAUSE_BOUNDS_S) + 1
REQUESTS = PAUSE_NS + 1
_WORDS = REQUESTS + 1
_BYTES = _WORDS * _WORD

_SUM = "ended"


@dataclass(frozen=True, slots=True)
class Counts:
    """What one process counted, or several together.

    Attributes:
        starts: workers that began.
        recycles: workers that were replaced for their memory.
        private_at_start_bytes: right after the fork; of one process only.
        collections: by generation.
        collected: objects found dead, by generation.
        pauses: by bucket, not cumulated, the last one without a bound.
        pause_ns: of all collections.
        requests: answered, by servers that tell.
    """

    starts: int = 0
    recycles: int = 0
    private_at_start_bytes: int = 0
    collections: tuple[int, ...] = (0,) * GENERATIONS
    collected: tuple[int, ...] = (0,) * GENERATIONS
    pauses: tuple[int, ...] = (0,) * (len(PAUSE_BOUNDS_S) + 1)
    pause_ns: int = 0
    requests: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.starts + other.starts,
            self.recycles + other.recycles,
            0,
            _added(self.collections, other.collections),
            _added(self.collected, other.collected),
            _added(self.pauses, other.pauses),
            self.pause_ns + other.pause_ns,
            self.requests + other.requests,
        )


class Board:
    """One process's own file, open for counting.

    Attributes:
        words: to be added to, at the positions that this module names.
    """

    def __init__(self, directory: Path, master_pid: int, pid: int) -> None:
        """Make the file.

        Raises:
            OSError: it cannot be made.
        """
        directory.mkdir(parents=True, exist_ok=True)
        with _path(directory, master_pid, str(pid)).open("w+b") as file:
            file.truncate(_BYTES)
            self.words = memoryview(mmap.mmap(file.fileno(), _BYTES)).cast("Q")
        self.words[STARTS] = 1
        self.words[MAGIC] = _MAGIC


def read_board(path: Path) -> Counts | None:
    """What a process counted; None if there is no such file, or none that is complete."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) != _BYTES:
        return None
    words = tuple(memoryview(data).cast("Q"))
    if words[MAGIC] != _MAGIC:
        return None
    return Counts(
        words[STARTS],
        words[RECYCLES],
        words[PRIVATE_AT_START],
        words[COLLECTIONS:COLLECTED],
        words[COLLECTED:PAUSES],
        words[PAUSES:PAUSE_NS],
        words[PAUSE_NS],
        words[REQUESTS],
    )


def read_one(directory: Path, master_pid: int, pid: int) -> Counts | None:
    """What one living worker counted; None if it counts nothing."""
    return read_board(_path(directory, master_pid, str(pid)))


def read_all(
    directory: Path, master_pid: int, workers: tuple[int, ...]
) -> tuple[dict[int, Counts], Counts]:
    """What the workers of a server counted.

    Args:
        workers: pids of those that live.

    Returns:
        Dict of pid to its counts, of those that live and count; and the sum over these and
        all that have ended.
    """
    living = {}
    with _locked(directory):
        total = read_board(_path(directory, master_pid, _SUM)) or Counts()
        ended = []
        for path in directory.glob(f"{master_pid}.*.board"):
            name = path.name.split(".")[1]
            counts = read_board(path) if name.isdecimal() else None
            if counts is None:
                continue
            if int(name) in workers:
                living[int(name)] = counts
            elif not Path("/proc", name).exists():
                total += counts
                ended.append(path)
        if ended:
            _write_sum(_path(directory, master_pid, _SUM), total)
            for path in ended:
                path.unlink(missing_ok=True)
    return living, sum(living.values(), total)


def _write_sum(path: Path, total: Counts) -> None:
    words = (
        _MAGIC,
        total.starts,
        total.recycles,
        0,
        *total.collections,
        *total.collected,
        *total.pauses,
        total.pause_ns,
        total.requests,
    )
    partial = path.with_suffix(".partial")
    partial.write_bytes(memoryview(b"".join(word.to_bytes(_WORD, "little") for word in words)))
    partial.replace(path)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _path(directory: Path, master_pid: int, name: str) -> Path:
    return directory / f"{master_pid}.{name}.board"


def _added(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))
