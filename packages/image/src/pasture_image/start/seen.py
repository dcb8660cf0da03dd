"""Notes which modules the first start of a program imports: `auto` makes its image of them.

Called by a start file, before the program. Names go into memory that both share: there is nothing
to wait for, to fail, or to lose when the program is killed. Forked processes note nothing.
"""

from __future__ import annotations

import contextlib
import os
import posix
import sys

VARIABLE = "_PASTURE_SEEN"
"""Set by `pasture-python` for this start alone: no child of the program has it."""


def start() -> None:
    """Note names from now on."""
    pid, _, file = os.environ.pop(VARIABLE).partition(":")
    posix.environ.pop(os.fsencode(VARIABLE), None)
    if pid == str(os.getpid()) and file.isdecimal():
        with contextlib.suppress(OSError, ValueError):
            sys.meta_path.insert(0, _Seen(int(file)))


class _Seen:
    """A finder that finds nothing."""

    def __init__(self, file: int) -> None:
        import mmap

        # The program has no descriptor of it, where Python can do without.
        options = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        try:
            self._area = mmap.mmap(file, 0, **options)
        finally:
            os.close(file)
        self._used = 0
        self._pid = os.getpid()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note a name; another finder finds it."""
        line = f"{name}\n".encode("utf-8", "replace")
        end = self._used + len(line)
        if end < len(self._area) and os.getpid() == self._pid:
            self._area[self._used : end] = line
            self._used = end
