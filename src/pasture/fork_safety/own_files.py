"""Regular files that an import has opened: each child gets an open file of its own, where it stood.

A fork shares the place in a file: two workers that read on would each get half of the lines. One
that only writes is left alone: workers of one log must not write over each other.

Owns which files, and the places. Invariant: what was open before the import is not touched, nor is
the parent's. A file that is locked, or cannot be opened again, stays shared.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from pasture.fork_safety.open_files import Files, is_locked

_OF_PATHS = os.O_NOFOLLOW | os.O_TMPFILE
"""They stay among the flags of a file that was opened so; its path in /proc is a link."""

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
    """Remember what children get for their own. In the parent, before the forks."""
    global _noted
    found = frozenset(_regular(files)) - (_before or frozenset())
    _noted = frozenset(one for one in found if not is_locked(one[0]))


def take() -> None:
    """Open what was noted again. In each child, right after the fork; not in its own children."""
    global _noted
    noted, _noted = _noted, frozenset()
    for number, device, inode in noted:
        with suppress(OSError):
            what = os.fstat(number)
            if (what.st_dev, what.st_ino) == (device, inode):
                _open_again(number)


def _open_again(number: int) -> None:
    flags = fcntl.fcntl(number, fcntl.F_GETFL)
    if flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_PATH:
        replace(number, f"/proc/self/fd/{number}")


def replace(number: int, path: str) -> None:
    """Open a path in the place of a file, with its flags and its position.

    Raises:
        OSError: it stays what it was.
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
