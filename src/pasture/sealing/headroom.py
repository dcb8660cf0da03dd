"""Which steps of the seal fit into the memory that control groups leave.

A step that does not fit is not started: what goes over the limit of a group ends the process.
Owns what a step may need at its peak: a part of what is in memory, and an amount besides, twice
what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pasture.proc.cgroup import Headroom, read_headroom
from pasture.proc.os_page import OS_PAGE_BYTES

_MIB = 1 << 20
_STATM = Path("/proc/self/statm")

PEAK_PARTS: Mapping[str, float] = {
    "resolve-imports": 0.0,
    "collect": 0.04,
    "gather-code": 0.01,
    "immortalize": 0.02,
    "plug-malloc": 0.01,
    "plug-pymalloc": 0.01,
    "snapshot": 0.05,
}
"""Of the resident memory, by step. Other steps need nothing to speak of."""

BESIDES_BYTES: Mapping[str, int] = {"resolve-imports": 32 * _MIB}
"""By step, where it is not 1 MiB. One import of the standard library takes up to 15 MB, as
`doctest` does, and the steps that follow need memory, too."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What is left at one moment.

    Attributes:
        headroom: of the narrowest control group; None without a limit.
        resident_bytes: of this process.
    """

    headroom: Headroom | None
    resident_bytes: int

    def refusal(self, step: str) -> str | None:
        """Why the step does not fit; None if it does."""
        if self.headroom is None or step not in PEAK_PARTS:
            return None
        needed = int(self.resident_bytes * PEAK_PARTS[step]) + BESIDES_BYTES.get(step, _MIB)
        if needed <= self.headroom.bytes:
            return None
        return (
            f"it may take {needed / 1e6:.1f} MB for a moment, and the memory limit of "
            f"{self.headroom.group} leaves {self.headroom.bytes / 1e6:.1f} MB"
        )


def look() -> Budget:
    """What is left now. Safe at any time."""
    try:
        headroom = read_headroom()
        resident = 0 if headroom is None else int(_STATM.read_text().split()[1]) * OS_PAGE_BYTES
    except (OSError, ValueError, IndexError, MemoryError):  # the steps find out for themselves
        return Budget(None, 0)
    return Budget(headroom, resident)
