"""What the processes of one server show each other: a few numbers each, in shared memory.

Owns the layout, and who writes what: the server's own process writes pid, generation and
role, a worker the rest of its own row. Every number is one aligned word, so a reader never
sees half of one. The memory is a file without a name that descendants inherit mapped, and that
anybody with the same rights finds among the server's open files.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pasture.servers.refork.herd import Facts

NAME = "pasture-herd"
ROWS = 4096

_WORD_BYTES = 8
_ROW_WORDS = 8
_ROW_BYTES = _ROW_WORDS * _WORD_BYTES

# Words of row 0, which is the server's.
_MAGIC_AT, _LIMIT_AT = 0, 1
_MAGIC = 0x31_44_52_45_48_5A_50

# Words of every other row.
_PID, _GENERATION, _ROLE, _READY, _REQUESTS, _UNSAFE = range(6)
_WORKER, _MOLD = 1, 2


@dataclass(frozen=True, slots=True)
class Entry:
    """One process, as an outsider sees it."""

    pid: int
    generation: int
    role: Literal["worker", "mold"]
    requests: int


class Row:
    """A process's own row, open for writing in that process."""

    def __init__(self, words: memoryview, number: int) -> None:
        self.number = number
        self._words = words
        self._at = number * _ROW_WORDS

    def show_serving(self, serving: bool) -> None:
        self._words[self._at + _READY] = serving

    def show_requests(self, count: int) -> None:
        self._words[self._at + _REQUESTS] = count

    def show_unsafe(self) -> None:
        self._words[self._at + _UNSAFE] = 1

    @property
    def limit(self) -> int:
        """Requests at which the server wants to be woken; 0 is never."""
        return self._words[_LIMIT_AT]


class Board:
    """All rows. Made once, by the server's own process, before its first fork."""

    def __init__(self) -> None:
        """Map the memory.

        Raises:
            OSError: it cannot be had.
        """
        self._file = os.memfd_create(NAME)
        os.ftruncate(self._file, ROWS * _ROW_BYTES)
        self._words = memoryview(mmap.mmap(self._file, ROWS * _ROW_BYTES)).cast("Q")
        self._words[_MAGIC_AT] = _MAGIC
        self._free = list(range(ROWS - 1, 0, -1))

    def row(self, number: int) -> Row:
        return Row(self._words, number)

    def take_row(self) -> int:
        """An empty row, for a process about to be forked.

        Raises:
            IndexError: there is none left.
        """
        number = self._free.pop()
        at = number * _ROW_WORDS
        for word in range(_ROW_WORDS):
            self._words[at + word] = 0
        return number

    def give_back(self, number: int) -> None:
        self._words[number * _ROW_WORDS + _PID] = 0
        self._free.append(number)

    def register(self, number: int, pid: int, generation: int) -> None:
        """A process was forked."""
        at = number * _ROW_WORDS
        self._words[at + _GENERATION] = generation
        self._words[at + _ROLE] = _WORKER
        self._words[at + _PID] = pid

    def promote(self, number: int, generation: int) -> None:
        """The worker is to become the mold of a generation."""
        at = number * _ROW_WORDS
        self._words[at + _GENERATION] = generation
        self._words[at + _ROLE] = _MOLD

    def facts(self, number: int) -> Facts:
        words, at = self._words, number * _ROW_WORDS
        return Facts(
            ready=bool(words[at + _READY]),
            requests=words[at + _REQUESTS],
            unsafe=bool(words[at + _UNSAFE]),
        )

    def wake_at(self, requests: int) -> None:
        """Have workers wake the server when they have answered that many."""
        self._words[_LIMIT_AT] = requests


def read_board(server_pid: int, proc: Path = Path("/proc")) -> dict[int, Entry]:
    """What the processes of a server show; empty for a server without a board.

    From outside of the server. Also empty where its open files may not be read.

    Returns:
        Dict of pid to entry.
    """
    try:
        files = list((proc / str(server_pid) / "fd").iterdir())
    except OSError:
        return {}
    for path in files:
        try:
            if str(path.readlink()).startswith(f"/memfd:{NAME}"):
                return _entries(path.read_bytes())
        except OSError:
            continue  # closed meanwhile
    return {}


def forked_by(worker_pid: int, server_pid: int) -> int:
    """Pid of the process from which a worker was forked: its mold, if that is still there, or
    else the server. From outside."""
    shown = read_board(server_pid)
    worker = shown.get(worker_pid)
    for entry in shown.values():
        if worker and entry.role == "mold" and entry.generation == worker.generation:
            return entry.pid
    return server_pid


def _entries(data: bytes) -> dict[int, Entry]:
    words = memoryview(data).cast("Q")
    if len(words) < _ROW_WORDS or words[_MAGIC_AT] != _MAGIC:
        return {}
    found = {}
    for at in range(_ROW_WORDS, len(words), _ROW_WORDS):
        pid = words[at + _PID]
        if pid:
            role: Literal["worker", "mold"] = "mold" if words[at + _ROLE] == _MOLD else "worker"
            found[pid] = Entry(pid, words[at + _GENERATION], role, words[at + _REQUESTS])
    return found
