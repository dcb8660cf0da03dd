"""The kernel's record of what a load has looked at, as src/stub/record.c writes it.

Owns its format, and which lookups count: marks say so (`recording`). What follows from them is
`build.lookups`'.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from errno import ENOENT, ENOTDIR
from pathlib import PurePath
from typing import NamedTuple

from pasture_image.inside.recording import COUNTED, LISTED, LISTS, MARK, OWN, STARTED, WARMED

NOT_THERE = (ENOENT, ENOTDIR)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_PART_BYTES = 1 << 20


class Lookup(NamedTuple):
    """One call, and what was there right before it; all 0 behind `error` if nothing was."""

    thread: int
    call: str
    flags: int
    error: int
    mode: int
    size: int
    changed_ns: int
    inode: int
    device: int
    names: int
    path: str

    @property
    def times(self) -> Times:
        """As `times_of` the path, then."""
        return [self.changed_ns, self.size, self.inode, self.device]


def read(number: int) -> bytes:
    """All of a record. The recorder goes on writing, at an offset that both descriptors share."""
    data = bytearray()
    while part := os.pread(number, _PART_BYTES, len(data)):
        data += part
    return bytes(data)


def parsed(data: bytes) -> Iterator[Lookup]:
    """Records in their order.

    Raises:
        ValueError: no recorder writes that.
    """
    for record in data.split(b"\0")[:-1]:
        thread, call, flags, error, mode, *rest, path = record.split(b"\t", 10)
        size, changed_ns, inode, device, names = map(int, rest)
        of_call = int(thread), call.decode(), int(flags, 16)
        known = int(error), int(mode, 16), size, changed_ns, inode, device, names
        yield Lookup(*of_call, *known, _plain(os.fsdecode(path)))


class Counted(NamedTuple):
    """A lookup that counts.

    Attributes:
        is_import: whether the import system was listing meanwhile; None while that was not marked.
        is_loading: whether modules were loaded by then, not the interpreter itself.
        is_warmed: whether an application served requests by then.
    """

    lookup: Lookup
    is_import: bool | None
    is_loading: bool
    is_warmed: bool


def counted(lookups: Iterable[Lookup]) -> Iterator[Counted]:
    """Those that count, without marks."""
    counts, is_started, is_loading, is_warmed, listing = True, False, False, False, set[int]()
    for lookup in lookups:
        if not lookup.path.startswith(MARK):
            if counts:
                is_import = lookup.thread in listing if is_started else None
                yield Counted(lookup, is_import, is_loading, is_warmed)
        elif lookup.path == STARTED:
            is_started = True
        elif lookup.path == WARMED:
            is_warmed = True
        elif lookup.path in (OWN, COUNTED):
            counts = is_loading = lookup.path == COUNTED
        elif lookup.path == LISTS:
            listing.add(lookup.thread)
        elif lookup.path == LISTED:
            listing.discard(lookup.thread)


def again(lookups: Sequence[Lookup]) -> Sequence[Lookup]:
    """Those of a second load, which does not count (`trial`)."""
    return lookups[max((at for at, one in enumerate(lookups) if one.path == OWN), default=0) :]


def new_folders(here: str) -> list[str]:
    """The builder's working directory and the two above: empty, of names that are nowhere else."""
    return [here, *map(str, PurePath(here).parents[:2])]


def writes(lookup: Lookup) -> bool:
    """Whether it may change a file: not one that is not there and would not be made."""
    if lookup.call == "open":
        return bool(lookup.flags & (os.O_CREAT if lookup.error in NOT_THERE else _WRITES))
    return lookup.call in ("write", "place")


def _plain(path: str) -> str:
    """Without what changes nothing in it."""
    path = re.sub(r"/(\.?/)+", "/", path)
    return path.removesuffix("/.").rstrip("/") or "/"


# -- how a file is known to be the same

FileTimes = tuple[str, int, int, int, int]
"""Path of a file, when it was changed, its size, its inode, its device."""

Times = list[int]
MISSING: Times = [0, 0, 0, 0]


def times_of(path: str, *, follows: bool = True) -> Times:
    """When a file was changed, its size, its inode, its device; all 0 if it is not there."""
    try:
        status = os.stat(path, follow_symlinks=follows)  # noqa: PTH116 - hundreds at a time, while a program waits
    except (OSError, ValueError):
        return MISSING
    return [status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev]


def file_times(path: str) -> FileTimes:
    """The times of a file, with its path."""
    changed, size, inode, device = times_of(path)
    return path, changed, size, inode, device
