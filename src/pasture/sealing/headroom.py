"""The steps of the seal that fit into the memory that control groups leave.

A step that does not fit is not started: above the limit of a group the kernel ends the process.
"""

from __future__ import annotations

from typing import NamedTuple

from pasture.proc.cgroup import Headroom, read_headroom
from pasture.proc.own_memory import read_own_memory


class Peak(NamedTuple):
    """Memory that a step may need for a moment: twice the measured amount."""

    part: float  # part of the resident memory
    besides_bytes: int = 1 << 20  # a fixed amount in addition


RESOLVE_IMPORTS = Peak(0.0, 32 << 20)
"""One import of the standard library takes up to 15 MB, as `doctest` does, and the next steps need
memory, too."""

SNAPSHOT = Peak(0.05)
"""Peak of a snapshot of the heap in a file."""


class Budget(NamedTuple):
    headroom: Headroom | None  # headroom of the narrowest control group; None without a limit
    resident_bytes: int  # memory of this process

    def refusal(self, peak: Peak | None) -> str | None:
        """Why a step does not fit; None if it does."""
        if self.headroom is None or peak is None:
            return None
        needed = int(self.resident_bytes * peak.part) + peak.besides_bytes
        if needed <= self.headroom.bytes:
            return None
        return (
            f"it may take {needed / 1e6:.1f} MB for a moment, and the memory limit of "
            f"{self.headroom.group} leaves {self.headroom.bytes / 1e6:.1f} MB"
        )


def look() -> Budget:
    """The budget now. Safe at any time."""
    try:
        headroom = read_headroom()
        resident = 0 if headroom is None else read_own_memory().resident_bytes
    except (OSError, ValueError, MemoryError):  # the steps run without a budget
        return Budget(None, 0)
    return Budget(headroom, resident)
