"""The step that puts a large sealed heap into huge pages, where the system's settings allow it.

Owns when it pays, and which settings forbid it. `MADV_COLLAPSE` ignores the system's settings, but
a host that has switched huge pages off must keep them off.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pasture.interpreter import native
from pasture.proc.own_memory import read_own_memory
from pasture.sealing import headroom

_SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")
_CHOSEN = re.compile(r"\[(\w+)\]")

MIN_BYTES = 256 << 20
"""The smallest heap that is collapsed: below it the collapse costs more than it saves."""

LIMIT_S = 2.5
"""Limit of the thread's time below 2.5 GB. 1 GB takes 0.3 s, or 2 s where the host lacks memory."""

LIMIT_S_PER_GB = 1.0
"""Limit for a larger heap: about the time of the rest of the seal for a heap of small objects."""

_AGAIN_AT = 17 / 16
"""Growth of the heap since the last collapse that makes another one worth while."""

_looked_at = (0, 0)  # pid of the process, and bytes of its heap then

PEAK = headroom.Peak(1 / 16, 4 << 20)
"""Empty pages, one in 16 at most, and one huge page in addition to the pages that it replaces."""


def collapse() -> dict[str, int]:
    """Collapse suitable ranges; returns counts of ranges, and bytes that are in huge pages now.

    Raises:
        NotImplementedError: a setting, a limit or the kernel forbids it, for a heap that is large
            enough.
    """
    global _looked_at
    counts = {"ranges": 0, "collapsed": 0, "refused": 0, "bytes": 0}
    try:
        heap_bytes = read_own_memory().heap_bytes
        process, before = _looked_at
        if heap_bytes < max(MIN_BYTES, before * _AGAIN_AT if process == os.getpid() else 0):
            return counts
        huge_bytes = _require_huge_pages()
        if refusal := headroom.look().refusal(PEAK):
            raise NotImplementedError(refusal)
        limit_s = max(LIMIT_S, LIMIT_S_PER_GB * heap_bytes / 1e9)
        counts |= native().collapse(huge_bytes, MIN_BYTES // huge_bytes, int(limit_s * 1e9))
        _looked_at = os.getpid(), heap_bytes
    except (OSError, ValueError, MemoryError) as error:  # the heap is sealed all the same
        raise NotImplementedError(f"the size of the heap is unknown: {error}") from None
    if counts["refused"] and not counts["collapsed"]:
        raise NotImplementedError("the kernel collapsed no range")
    return counts | {"bytes": counts["collapsed"] * huge_bytes}


def _require_huge_pages() -> int:
    """The size of huge pages, in bytes. NotImplementedError: the system lacks or forbids them."""
    try:
        found = _CHOSEN.search((_SETTINGS / "enabled").read_text())
        size_bytes = int((_SETTINGS / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        raise NotImplementedError("the kernel does not have huge pages") from None
    if found is None or found[1] == "never":
        raise NotImplementedError(f"{_SETTINGS / 'enabled'} says never")
    return size_bytes
