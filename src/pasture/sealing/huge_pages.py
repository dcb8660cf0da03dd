"""The step that puts a large sealed heap into huge pages, where the system's settings allow it.

Owns when that pays, and what forbids it. `MADV_COLLAPSE` itself asks no setting of the system: a
host that has switched huge pages off must keep them off.
"""

from __future__ import annotations

import re
from pathlib import Path

from pasture.interpreter import native
from pasture.proc.own_memory import read_own_memory
from pasture.sealing import headroom

_SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")
_CHOSEN = re.compile(r"\[(\w+)\]")

MIN_BYTES = 256 << 20
"""With less a fork and a look at all of it cost so little that the collapse costs more."""

LIMIT_S = 2.0
"""Of processor time, and five times as much that passes. 1 GB takes 0.4 s; where free memory is in
pieces it may take much longer."""

PEAK = headroom.Peak(1 / 16, 4 << 20)
"""Pages that held nothing, one in 16 at most, and one huge page besides what it replaces."""


def collapse() -> dict[str, int]:
    """Collapse what is fit; counts of ranges, and bytes that are in huge pages now.

    Raises:
        NotImplementedError: a setting, a limit or the kernel forbids it, for a heap that is large
            enough.
    """
    counts = {"ranges": 0, "collapsed": 0, "refused": 0, "bytes": 0}
    try:
        if read_own_memory().heap_bytes < MIN_BYTES:
            return counts
        huge_bytes = _require_huge_pages()
        if refusal := headroom.look().refusal(PEAK):
            raise NotImplementedError(refusal)
        counts |= native().collapse(huge_bytes, MIN_BYTES // huge_bytes, int(LIMIT_S * 1e9))
    except (OSError, ValueError, MemoryError) as error:  # the heap is sealed all the same
        raise NotImplementedError(f"memory is not known: {error}") from None
    if counts["refused"] and not counts["collapsed"]:
        raise NotImplementedError("the kernel took none of the ranges")
    return counts | {"bytes": counts["collapsed"] * huge_bytes}


def _require_huge_pages() -> int:
    """Their size, in bytes.

    Raises:
        NotImplementedError: there are none, or the system's setting is not to use any.
    """
    try:
        found = _CHOSEN.search((_SETTINGS / "enabled").read_text())
        size_bytes = int((_SETTINGS / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        raise NotImplementedError("the kernel has none") from None
    if found is None or found[1] == "never":
        raise NotImplementedError(f"{_SETTINGS / 'enabled'} says never")
    return size_bytes
