"""Each way in which the system can refuse the collector something, and what must come of it.

Runs pypy/programs/failures.py in a check build, whose environment orders the failures
(PASTURE_CHECK_LEAVES, PASTURE_CHECK_REACH_BITS: see collector/marks.c). The
assertions and the program's own checksums would find silent corruption.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

NO_LOCK = 77
LEAF_BYTES = 16 << 20
TIMEOUT_S = 120

NO_LEAVES = {"PASTURE_CHECK_LEAVES": "0"}
ONE_LEAF = {"PASTURE_CHECK_LEAVES": "1"}
SHORT_REACH = {"PASTURE_CHECK_REACH_BITS": "40"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A program, what is refused it, and what it must say.

    Attributes:
        says: one of these must be in its output.
        ends_well: whether it must end with status 0 (else with another, and not by a
            segmentation fault).
    """

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    says: tuple[str, ...]
    ends_well: bool


FORGET = {"PASTURE_CHECK_FORGET": "10000"}
VERIFIER = ("black -> white pointer found", "live object in a free")
CAUGHT = ("MemoryError",)
OUT_OF_MEMORY = ("out of memory",)

REFUSALS = (
    Refusal("nothing refused", ("small",), {}, ("ok",), True),
    Refusal("a mark is forgotten: the verifier sees it", ("small",), FORGET, VERIFIER, False),
    Refusal("no memory for a leaf, arenas", ("small",), NO_LEAVES, OUT_OF_MEMORY, False),
    Refusal("no memory for a leaf, large objects", ("large",), NO_LEAVES, CAUGHT, True),
    Refusal("no memory for a second leaf", ("medium",), ONE_LEAF, OUT_OF_MEMORY, False),
    Refusal("arenas out of reach", ("small",), SHORT_REACH, OUT_OF_MEMORY, False),
    Refusal("large objects out of reach", ("large",), SHORT_REACH, CAUGHT, True),
)
LOCKED = ("before", "onfault", "after")


def _environment(added: dict[str, str]) -> dict[str, str]:
    return os.environ | {"PYPY_GC_NURSERY": "512K", "PYPY_GC_DEBUG": "1"} | added


def try_refusal(program: Path, refusal: Refusal) -> str | None:
    """Returns what is wrong, or None."""
    done = subprocess.run(
        [program, "failures", *refusal.arguments],
        env=_environment(refusal.environment),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
    )
    output = done.stdout + done.stderr
    if not any(words in output for words in refusal.says):
        return f"said {output.strip()[-300:]!r}, none of {refusal.says}"
    if (done.returncode == 0) != refusal.ends_well:
        return f"ended with {done.returncode}: {output.strip()[-300:]!r}"
    if done.returncode == -11:
        return "segmentation fault"
    return None


def _resident_leaf_bytes(pid: int) -> int:
    """Resident memory of mappings of exactly the size of a leaf."""
    resident, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            start, end = (int(address, 16) for address in words[0].split("-"))
            inside = end - start == LEAF_BYTES
        elif inside and words[0] == "Rss:":
            resident += int(words[1]) * 1024
    return resident


def try_locked(program: Path, when: str) -> str | None:
    """The program under mlockall, collecting. Returns what is wrong, or None.

    Locked before its leaves are mapped, it must not hold them in full. Locked after, the
    kernel itself has filled them.
    """
    with subprocess.Popen(
        [program, "failures", "locked", when],
        env=_environment({}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        said = process.stdout.readline().split()
        leaves = _resident_leaf_bytes(process.pid) if said[:1] == ["ok"] else 0
        process.stdin.close()
        status = process.wait(TIMEOUT_S)
    if status == NO_LOCK:
        return "mlockall was refused: run it as root, or raise RLIMIT_MEMLOCK"
    if said[:1] != ["ok"] or status != 0:
        return f"said {said!r} and ended with {status}"
    if when != "after" and leaves >= LEAF_BYTES:
        return f"{leaves:,} bytes of leaves are resident"
    return None
