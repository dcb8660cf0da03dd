"""The server's side of a scoreboard: the owners of rows, and the counts of ended ones.

Owns the memory. Invariants: it is allocated in full at once and can be neither cut nor extended, so
no store into it fails. Once claimed, a row has one writer, the process that it was reserved for,
until that has ended. Only the server's own process writes the rest. The server keeps its own list
of rows and does not read it back: a worker may run as another user.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
import time
from collections import deque
from dataclasses import dataclass

from pasture.proc import memory_file
from pasture.proc.stat import HIGHEST_PID, has_ended, start_time
from pasture.scoreboard import layout

UNCLAIMED_S = 60.0
"""Time after which an unclaimed row is taken back: the fork must have failed."""

_IDLE_PER_COST = 50
_SEALS = memory_file.SEAL_SHRINK | memory_file.SEAL_GROW | memory_file.SEAL_SEAL
_REQUESTS = layout.COUNTS.at["requests"]
_MAX_WORD = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Slot:
    """A row that was reserved for one process."""

    number: int  # number of the row
    token: int  # number of this reservation; a later one of the same row has a higher one


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker's report to a server that reforks."""

    ready: bool = False  # it has started to accept connections
    requests: int = 0  # it has answered
    unsafe: bool = False  # its application must not be forked any more


class Row:
    """A process's own row, open for writing in that process.

    Attributes:
        words: the row's, at the positions that `layout` names.
    """

    def __init__(self, board: memoryview, slot: Slot) -> None:
        at = slot.number * layout.ROW_WORDS
        self.words = board[at : at + layout.ROW_WORDS]
        self._board, self._token = board, slot.token

    def claim(self) -> bool:
        """Claim the row for this process; False if it has been taken back."""
        words = self.words
        if words[layout.TOKEN] != self._token or words[layout.PID] not in (0, os.getpid()):
            return False
        words[layout.STARTED] = start_time(os.getpid())
        words[layout.PID] = os.getpid()
        return True

    def show_serving(self, serving: bool) -> None:
        self.words[layout.READY] = serving

    def show_unsafe(self) -> None:
        self.words[layout.UNSAFE] = 1

    @property
    def requests(self) -> int:
        """Responses sent so far."""
        return self.words[_REQUESTS]

    @property
    def limit(self) -> int:
        """Number of requests at which the server wants to be woken; 0 is never."""
        return self._board[layout.LIMIT]


class Scoreboard:
    """All rows. Made once, by the server's own process, before its first fork.

    Raises:
        OSError: the memory cannot be allocated.
    """

    def __init__(self, rows: int = layout.ROWS) -> None:
        size = (layout.FIRST_ROW + rows) * layout.ROW_BYTES
        memory_file.require_room(size)
        file = memory_file.create(layout.NAME)
        try:
            os.posix_fallocate(file, 0, size)
            fcntl.fcntl(file, memory_file.ADD_SEALS, _SEALS)
            # The mapping keeps its own descriptor, by which tools find it.
            self.words = memoryview(mmap.mmap(file, size)).cast("Q")
        finally:
            os.close(file)
        self._free = deque(range(layout.FIRST_ROW, layout.FIRST_ROW + rows))
        self._taken: dict[int, tuple[int, float]] = {}
        self._tokens = 0
        self._changing = threading.Lock()
        self._no_sweep_before = 0.0
        self.words[layout.MAGIC_AT] = layout.MAGIC

    def reserve(self) -> Slot | None:
        """Reserve a row for a process about to be forked; None if all are taken."""
        with self._changing:
            if not self._free:
                self._sweep()
            if not self._free:
                return None
            number = self._free.popleft()
            self._tokens += 1
            self._clear(number)
            self.words[number * layout.ROW_WORDS + layout.TOKEN] = self._tokens
            self._taken[number] = self._tokens, time.monotonic()
            return Slot(number, self._tokens)

    def sweep(self, *, if_due: bool = False) -> None:
        """Free the rows of ended processes, before a fork; if `if_due`, only when it is quick."""
        if if_due and time.monotonic() < self._no_sweep_before:
            return
        with self._changing:
            begin = time.monotonic()
            self._sweep()
            end = time.monotonic()
            self._no_sweep_before = end + _IDLE_PER_COST * (end - begin)

    def _sweep(self) -> None:
        for number, (_, since) in list(self._taken.items()):
            at = number * layout.ROW_WORDS
            pid = self.words[at + layout.PID]
            if not 0 < pid <= HIGHEST_PID:
                ended = time.monotonic() - since > UNCLAIMED_S
            else:
                ended = has_ended(pid, self.words[at + layout.STARTED])
            if ended:
                self._release(number)

    def release(self, number: int) -> None:
        """Keep the counts of a row's process, which has ended, and free the row.

        If a signal handler calls this during another change, the next sweep does it.
        """
        if self._changing.acquire(blocking=False):
            try:
                self._release(number)
            finally:
                self._changing.release()

    def _release(self, number: int) -> None:
        """Release a row; can be interrupted anywhere and repeated."""
        if number not in self._taken:
            return
        token, _ = self._taken[number]
        if self.words[self._valid() + layout.TOKEN] != token:
            at = number * layout.ROW_WORDS
            self._add(self.words[at : at + layout.ROW_WORDS], token)
        self._clear(number)
        del self._taken[number]
        self._free.append(number)

    def count_start(self) -> None:
        """Count a worker that began and has no row."""
        row = [0] * layout.ROW_WORDS
        row[layout.COUNTS.at["starts"]] = 1
        with self._changing:
            self._add(row, token=0)

    def _add(self, row: memoryview | list[int], token: int) -> None:
        """Add to the counts of ended processes, by a single store at the end."""
        words, valid = self.words, self._valid()
        other = layout.ROW_WORDS * 3 - valid
        for word in range(layout.COUNTS.begin, layout.COUNTS.end):
            words[other + word] = min(words[valid + word] + row[word], _MAX_WORD)
        words[other + layout.TOKEN] = token
        words[layout.COMMITS] = (words[layout.COMMITS] + 1) & _MAX_WORD

    def _valid(self) -> int:
        return layout.ROW_WORDS * (1 + self.words[layout.COMMITS] % 2)

    def _clear(self, number: int) -> None:
        at = number * layout.ROW_WORDS
        for word in range(layout.ROW_WORDS - 1, -1, -1):
            self.words[at + word] = 0

    # --- For servers that refork --------------------------------------------------------

    def register(self, slot: Slot, pid: int, generation: int) -> None:
        """A process was forked."""
        at = slot.number * layout.ROW_WORDS
        self.words[at + layout.GENERATION] = generation
        self.words[at + layout.ROLE] = layout.WORKER
        self.words[at + layout.STARTED] = start_time(pid)
        self.words[at + layout.PID] = pid

    def promote(self, slot: Slot, generation: int) -> None:
        """The worker is to become the mold of a generation."""
        at = slot.number * layout.ROW_WORDS
        self.words[at + layout.GENERATION] = generation
        self.words[at + layout.ROLE] = layout.MOLD

    def status(self, slot: Slot) -> WorkerStatus:
        words, at = self.words, slot.number * layout.ROW_WORDS
        return WorkerStatus(
            ready=bool(words[at + layout.READY]),
            requests=words[at + _REQUESTS],
            unsafe=bool(words[at + layout.UNSAFE]),
        )

    def wake_at(self, requests: int) -> None:
        """Have workers wake the server when they have answered this number of requests."""
        # The number may come from workers, and be larger than a word.
        self.words[layout.LIMIT] = min(requests, _MAX_WORD)
