"""Where every number of a scoreboard lies, and how a copy of it is understood.

The memory is rows of 32 words of 8 bytes. Row 0 is the server's own, rows 1 and 2 hold in turn
what ended workers counted, and each later row belongs to one process.

Invariant: what a server counted is the valid one of rows 1 and 2 plus all later rows but the one
whose token that row names. So one store, of COMMITS, moves the counts of an ended worker into
the sum: no reader sees them twice or not at all, whoever is killed or stopped when.

Stores are ordered as the program says on x86-64; nothing here is a lock. On aarch64 another
processor may for an instant see two of them in the other order: a reader then shows the counts of
an ended worker twice, or not yet, and shows them right when it reads again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

NAME = "pasture-scoreboard"
MAGIC = 0x32_44_52_41_4F_42_5A_50
ROWS = 1024
"""Rows of processes: 256 KiB in all, which the kernel allocates at once."""

WORD_BYTES = 8
ROW_WORDS = 32
ROW_BYTES = ROW_WORDS * WORD_BYTES
FIRST_ROW = 3

GENERATIONS = 3
PAUSE_BOUNDS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
"""Upper bounds of the pause histogram's buckets; a last one has none."""

# Words of row 0. COMMITS says by its lowest bit which of rows 1 and 2 is valid.
MAGIC_AT, COMMITS, LIMIT = 0, 1, 2
SEAL_SHOWN, SEALED, ROUND, OBJECTS, PLUGGED_BYTES, SEAL_NS, PROBE = range(8, 15)
POLICY_AT, POLICY_WORDS = 16, 6
PYTHON_AT, PYTHON_WORDS = 22, 4

# Words of every other row; rows 1 and 2 have a token and counts only.
TOKEN, PID, STARTED, ROLE, GENERATION, READY, UNSAFE, PRIVATE_AT_START = range(8)
STARTS, RECYCLES, REQUESTS = 8, 9, 10
COLLECTIONS = 11
COLLECTED = COLLECTIONS + GENERATIONS
PAUSES = COLLECTED + GENERATIONS
PAUSE_NS = PAUSES + len(PAUSE_BOUNDS_S) + 1
COUNTS_END = PAUSE_NS + 1
TELLS_REQUESTS = COUNTS_END

PROBES = ("", "passed", "failed", "incomplete", "doubtful")
"""Outcomes of a probe, by the word of row 0."""

PLAIN, WORKER, MOLD = range(3)
"""Roles. The latter two are of servers that refork."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What one process counted, or several together.

    Attributes:
        starts: number of workers that began.
        recycles: number of workers that were replaced for their memory.
        requests: number of responses sent, by servers that tell.
        collections: number of garbage collections by generation.
        collected: number of objects found dead, by generation.
        pauses: number of collections by bucket, not cumulated, the last one without a bound.
        pause_ns: time that all collections took.
    """

    starts: int = 0
    recycles: int = 0
    requests: int = 0
    collections: tuple[int, ...] = (0,) * GENERATIONS
    collected: tuple[int, ...] = (0,) * GENERATIONS
    pauses: tuple[int, ...] = (0,) * (len(PAUSE_BOUNDS_S) + 1)
    pause_ns: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One process, as its server's scoreboard shows it.

    Attributes:
        generation: generation of the mold that it was forked from or is; None without reforks.
        private_at_start_bytes: private memory right after the fork; 0 if it is not known.
    """

    pid: int
    generation: int | None = None
    role: Literal["worker", "mold"] = "worker"
    counts: Counts = Counts()
    private_at_start_bytes: int = 0
    tells_requests: bool = False

    @property
    def requests(self) -> int | None:
        """Responses sent so far; None where the server does not tell."""
        return self.counts.requests if self.tells_requests else None


@dataclass(frozen=True, slots=True)
class SealFigures:
    """The latest seal of the process that loaded the application.

    Attributes:
        probe: one of `PROBES`, "" without one.
    """

    policy: str
    python: str
    sealed: bool
    round: int
    objects: int
    plugged_bytes: int
    seconds: float
    probe: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A scoreboard at one moment.

    Attributes:
        entries: dict of pid to entry, of processes that are there or ended a short while ago.
        total: what these and all that ended earlier counted.
        seal: None before the first.
    """

    entries: dict[int, Entry]
    total: Counts
    seal: SealFigures | None


def understand(words: Sequence[int]) -> Snapshot:
    """Read a copy of all words that no commit has changed meanwhile."""
    valid = ROW_WORDS * (1 + words[COMMITS] % 2)
    total = list(words[valid + STARTS : valid + COUNTS_END])
    found: dict[int, tuple[int, Entry]] = {}
    for at in range(FIRST_ROW * ROW_WORDS, len(words), ROW_WORDS):
        token, pid = words[at + TOKEN], words[at + PID]
        if not token or token == words[valid + TOKEN]:
            continue
        counts = words[at + STARTS : at + COUNTS_END]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        if pid and found.get(pid, (0,))[0] < token:  # a pid may have come around again
            found[pid] = token, _entry(words, at, pid)
    entries = {pid: entry for pid, (_, entry) in found.items()}
    return Snapshot(entries, _counts(total), _seal(words))


def words_of(text: str, count: int) -> list[int]:
    """A text as words, cut to their number."""
    data = text.encode("ascii", "replace")[: count * WORD_BYTES].ljust(count * WORD_BYTES, b"\0")
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]


def _text_of(words: Sequence[int]) -> str:
    """The printable characters of some words: what is read may be anybody's."""
    data = b"".join(word.to_bytes(WORD_BYTES, "little") for word in words)
    return "".join(chr(byte) for byte in data.partition(b"\0")[0] if 0x20 <= byte < 0x7F)


def _counts(values: Sequence[int]) -> Counts:
    part = [0] * STARTS + list(values)
    return Counts(
        part[STARTS],
        part[RECYCLES],
        part[REQUESTS],
        tuple(part[COLLECTIONS:COLLECTED]),
        tuple(part[COLLECTED:PAUSES]),
        tuple(part[PAUSES:PAUSE_NS]),
        part[PAUSE_NS],
    )


def _entry(words: Sequence[int], at: int, pid: int) -> Entry:
    role = words[at + ROLE]
    return Entry(
        pid,
        words[at + GENERATION] if role in (WORKER, MOLD) else None,
        "mold" if role == MOLD else "worker",
        _counts(words[at + STARTS : at + COUNTS_END]),
        words[at + PRIVATE_AT_START],
        bool(words[at + TELLS_REQUESTS]),
    )


def _seal(words: Sequence[int]) -> SealFigures | None:
    if not words[SEAL_SHOWN]:
        return None
    return SealFigures(
        _text_of(words[POLICY_AT : POLICY_AT + POLICY_WORDS]),
        _text_of(words[PYTHON_AT : PYTHON_AT + PYTHON_WORDS]),
        bool(words[SEALED]),
        words[ROUND],
        words[OBJECTS],
        words[PLUGGED_BYTES],
        words[SEAL_NS] / 1e9,
        PROBES[words[PROBE]] if words[PROBE] < len(PROBES) else "",
    )
