"""What a load has written to files: each load would, or only the first that does not find it.

A second load shows which (`trial`). Out of the kernel's record, before anything but the two loads
has run. What a program would do to files again is no program's out of an image; what another load
finds is the reason for another build, which finds it, too.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import PurePath

from pasture.proc import OF_THE_KERNEL
from pasture_image.inside.record import (
    MISSING,
    NOT_THERE,
    Lookup,
    again,
    counted,
    parsed,
    times_of,
    writes,
)

CACHE = "/__pycache__/"


def is_appended(flags: int) -> bool:
    """Whether flags of open(2) are those of a log: each program adds to what is there by then."""
    return flags & (os.O_ACCMODE | os.O_APPEND) == os.O_WRONLY | os.O_APPEND


def left(data: bytes) -> tuple[list[str], list[str]]:
    """Paths of what is another one now than it was before the load.

    A log that stays open counts by what was added to it; with a warm-up, which adds to it too, it
    does not.

    Returns:
        What each load makes, changes or removes; and what only the first does.
    """
    lookups, logs = list(parsed(data)), _logs()
    first = dict[str, Lookup]()
    for lookup, _, is_loading, is_warmed in counted(lookups):
        path = f"{lookup.path}/"
        if is_warmed:
            logs = dict.fromkeys(logs, 0)
        elif is_loading and path.startswith("/") and not path.startswith(OF_THE_KERNEL):
            if writes(lookup) and CACHE not in path:
                first.setdefault(lookup.path, lookup)
    found = {path: one for path, one in first.items() if is_changed(one)
             and logs.get(path, -1) not in (0, one.size)}  # fmt: skip
    second = again(lookups)
    seen = "".join(f"\n{lookup.path}/" for lookup in second)
    changed = {lookup.path for lookup in second if writes(lookup) and is_changed(lookup)}
    each, once = list[str](), list[str]()
    for path, lookup in found.items():
        own = found.keys() & {path, *map(str, PurePath(path).parents)}
        is_found = any(f"\n{one}/" in seen for one in own)
        is_removed = not lookup.error and times_of(path) == MISSING
        (once if path not in changed and (is_found or is_removed) else each).append(path)
    return each, once


def is_changed(lookup: Lookup) -> bool:
    """Whether something else is there now than there was; of a folder counts which it is."""
    now = times_of(lookup.path, follows=lookup.call != "place")
    if lookup.error:
        return lookup.error in NOT_THERE and now != MISSING
    was = lookup.times
    return was[2:] != now[2:] if stat.S_ISDIR(lookup.mode) else was != now


def _logs() -> dict[str, int]:
    """Files that are open to add to, and where in each this process is."""
    found = dict[str, int]()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):
            if is_appended(fcntl.fcntl(int(name), fcntl.F_GETFL)):
                path = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
                at = os.lseek(int(name), 0, os.SEEK_CUR)
                found[path] = max(at, found.get(path, 0))
    return found
