"""Regular files that an import has opened: each child gets its own open file, at the same position.

A fork shares the position in a file: two workers that read on would each get half of the lines.
Invariant: what was open before the import is not touched, nor is the parent's. A file that is only
written, is locked, or cannot be opened again, stays shared.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from pasture.fork_safety.open_files import Files, is_locked

_OF_PATHS = os.O_NOFOLLOW | os.O_TMPFILE
"""Flags that an open file keeps and a second `open` must not have: its path in /proc is a link."""

_File = tuple[int, int, int]
"""Number, device and inode."""

_before: frozenset[_File] | None = None
_noted: frozenset[_File] = frozenset()


def begin(files: Files) -> None:
    """Remember what is open before the application is loaded. The first call counts."""
    global _before
    if _before is None:
        _before = frozenset(_regular(files))


def note(files: Files) -> None:
    """Note the files that each child opens again. In the parent, before the forks."""
    global _noted
    found = frozenset(_regular(files)) - (_before or frozenset())
    _noted = frozenset(one for one in found if not is_locked(one[0]))


def take() -> None:
    """Open the noted files again. In each child, right after the fork; not in its own children."""
    global _noted
    noted, _noted = _noted, frozenset()
    for number, device, inode in noted:
        with suppress(OSError):
            what = os.fstat(number)
            if (what.st_dev, what.st_ino) == (device, inode):
                flags = fcntl.fcntl(number, fcntl.F_GETFL)
                if flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_PATH:
                    replace(number, f"/proc/self/fd/{number}")


def replace(number: int, path: str) -> None:
    """Replace an open file by its path, opened with the same flags and position.

    Raises:
        OSError: the open file is unchanged.
    """
    flags = fcntl.fcntl(number, fcntl.F_GETFL) & ~_OF_PATHS
    own = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.lseek(own, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
        os.dup2(own, number, os.get_inheritable(number))
    finally:
        os.close(own)


def _regular(files: Files) -> Iterator[_File]:
    regular = ((number, what) for number, what in files if stat.S_ISREG(what.st_mode))
    return ((number, what.st_dev, what.st_ino) for number, what in regular)
