"""The place of every number on a scoreboard, and the reading of a copy.

The figures themselves are declared in `figures`.

The memory is rows of words of 8 bytes, each row whole cache lines. Row 0 is the server's own, rows
1 and 2 hold in turn the counts of ended workers, and each later row belongs to one process.
Invariant: a server's count is the valid one of rows 1 and 2 plus all later rows except the one
whose token that row names. So one store, of COMMITS, moves the counts of an ended worker into the
sum: a reader sees them exactly once, even if a process is killed or stopped meanwhile.

Stores are in program order on x86-64; the memory has no locks. On aarch64 another processor may for
an instant see two stores in the other order: a reader then shows the counts of an ended worker
twice, or not yet, and the right ones at its next reading.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pasture.scoreboard import figures
from pasture.scoreboard.figures import WORD_BYTES, Counts, SealFigures, Table

Role = Literal["worker", "mold", "mule", "spooler"]

NAME = "pasture-scoreboard"
ROWS = 1024
"""Rows of processes: 256 KiB in all, which the kernel allocates at once."""

FIRST_ROW = 3

# Words of row 0. The lowest bit of COMMITS selects the valid one of rows 1 and 2.
MAGIC_AT, COMMITS, LIMIT, SEAL_SHOWN = range(4)
SEAL = Table(SealFigures, SEAL_SHOWN + 1)

# Words of every other row; rows 1 and 2 have a token and counts only.
TOKEN, PID, STARTED, ROLE, GENERATION, READY, UNSAFE, PRIVATE_AT_START, SAYS_REQUESTS = range(9)
COUNTS = Table(Counts, SAYS_REQUESTS + 1)
MARKS = range(COUNTS.end, COUNTS.end + 3)
"""Memory of a process at each of the latest numbers of requests that are powers of two, bytes."""

_LINE_WORDS = 8
ROW_WORDS = -(-max(SEAL.end, MARKS.stop) // _LINE_WORDS) * _LINE_WORDS
ROW_BYTES = ROW_WORDS * WORD_BYTES

PLAIN, WORKER, MOLD, MULE, SPOOLER = range(5)
"""Roles. The second and third belong to servers that refork, the last two to uWSGI."""

ROLES: tuple[Role, ...] = ("worker", "worker", "mold", "mule", "spooler")
"""Their names."""


def digest(*modules: Mapping[str, object]) -> int:
    """The word by which a reader checks that the memory has this layout."""
    constants = [
        (name, value)
        for names in modules
        for name, value in names.items()
        if name.isupper() and not name.startswith("_")
    ]
    return int.from_bytes(b"PZBO", "little") | crc32(repr(constants).encode()) << 32


MAGIC = digest(vars(figures), globals())


@dataclass(frozen=True, slots=True)
class Entry:
    """One process, as its server's scoreboard shows it."""

    pid: int
    # Generation of its mold, or its own as a mold; None without reforks.
    generation: int | None = None
    role: Role = "worker"
    counts: Counts = field(default_factory=Counts)
    private_at_start_bytes: int = 0  # private memory right after the fork; 0 if it is not known
    says_requests: bool = False
    main_serves: bool = False  # whether its main thread serves, and waits for no lock
    # Its memory, shared or not, at the latest requests whose number is a power of two, oldest
    # first, bytes; 0 without such a request.
    marks: tuple[int, ...] = (0,) * len(MARKS)

    @property
    def requests(self) -> int | None:
        """Responses sent so far; None where the server does not count them."""
        return self.counts.requests if self.says_requests else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A scoreboard at one moment."""

    # Dict of pid to entry, of processes that run or ended a short while ago.
    entries: dict[int, Entry]
    total: Counts  # counts of these and of all that ended earlier
    seal: SealFigures | None  # None before the first seal


def understand(words: Sequence[int]) -> Snapshot:
    """Read a copy of all words that no commit has changed meanwhile."""
    valid = ROW_WORDS * (1 + words[COMMITS] % 2)
    total = list(words[valid + COUNTS.begin : valid + COUNTS.end])
    found: dict[int, tuple[int, Entry]] = {}
    for at in range(FIRST_ROW * ROW_WORDS, len(words), ROW_WORDS):
        token, pid = words[at + TOKEN], words[at + PID]
        if not token or token == words[valid + TOKEN]:
            continue
        counts = words[at + COUNTS.begin : at + COUNTS.end]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        if pid and found.get(pid, (0,))[0] < token:  # a pid may have been reused
            found[pid] = token, _entry(words, at, pid)
    entries = {pid: entry for pid, (_, entry) in found.items()}
    seal = SEAL.read(words) if words[SEAL_SHOWN] else None
    return Snapshot(entries, COUNTS.read(total, -COUNTS.begin), seal)


def _entry(words: Sequence[int], at: int, pid: int) -> Entry:
    role = words[at + ROLE]
    return Entry(
        pid,
        words[at + GENERATION] if role in (WORKER, MOLD) else None,
        ROLES[role] if role < len(ROLES) else "worker",
        COUNTS.read(words, at),
        words[at + PRIVATE_AT_START],
        bool(words[at + SAYS_REQUESTS]),
        words[at + SAYS_REQUESTS] > 1,
        tuple(words[at + mark] for mark in MARKS),
    )
