"""Notices that files of loaded modules have changed, at the moment when somebody asks.

The kernel keeps a queue of what happens in folders (inotify(7)); looking into it when nothing has
happened is one system call. Where it cannot be had, files are compared by their times instead.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

_IN_MODIFY, _IN_ATTRIB, _IN_MOVED, _IN_CREATE, _IN_DELETE = 0x2, 0x4, 0xC0, 0x100, 0x200
_IN_DELETE_SELF, _IN_MOVE_SELF, _IN_OVERFLOW, _IN_IGNORED = 0x400, 0x800, 0x4000, 0x8000
_MASK = (
    _IN_MODIFY | _IN_ATTRIB | _IN_MOVED | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF
)
_EVENT = struct.Struct("iIII")

FileTimes = tuple[str, int, int, int]
"""Path of a file, when it was changed, its size, its inode."""


class Changes:
    """What a zygote was made of, watched from now on.

    Attributes:
        has_happened: whether anything changed.
    """

    def __init__(
        self, files: Iterable[FileTimes], folders: Iterable[str], modules: Iterable[str]
    ) -> None:
        """Begin to watch.

        Args:
            files: of modules, as they were when they were loaded.
            folders: in which modules are looked for.
            modules: names that are loaded: a new file in such a folder may hide one of them.
        """
        self._names: dict[int, set[str] | None] = {}
        self._files = {path: times for path, *times in files}
        self._modules = {name.partition(".")[0] for name in modules}
        import ctypes  # not in a process that is copied: it keeps a file open

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._queue = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._queue >= 0:
            self._watch_all(set(folders))
        self.has_happened = self._compared()  # before the watch began

    def close(self) -> None:
        """Watch no more."""
        if self._queue >= 0:
            os.close(self._queue)
            self._queue = -1

    def look(self) -> bool:
        """Whether anything has changed since the beginning."""
        if not self.has_happened:
            self.has_happened = self._happened() if self._queue >= 0 else self._compared()
        return self.has_happened

    def _watch_all(self, folders: set[str]) -> None:
        by_folder: dict[str, set[str]] = {}
        for path in self._files:
            folder, name = os.path.split(path)
            by_folder.setdefault(folder, set()).add(name)
        for folder in by_folder.keys() | folders:
            names = None if folder in folders else by_folder[folder]
            if not self._watch(folder, names) and folder in by_folder:
                self.close()  # files are compared from now on
                return

    def _watch(self, folder: str, names: set[str] | None) -> bool:
        number = self._libc.inotify_add_watch(self._queue, os.fsencode(folder), _MASK)
        if number >= 0:
            self._names[number] = names
        return bool(number >= 0)

    def _happened(self) -> bool:
        while True:
            try:
                data = os.read(self._queue, 1 << 16)
            except BlockingIOError:
                return False
            if any(self._matters(*event) for event in _events(data)):
                return True

    def _matters(self, number: int, mask: int, name: str) -> bool:
        if mask & (_IN_OVERFLOW | _IN_DELETE_SELF | _IN_MOVE_SELF):
            return True
        if mask & _IN_IGNORED or not name:
            return False
        names = self._names.get(number)
        if names is not None:
            return name in names
        # A folder of the search path: what could be, or hide, a module that is loaded.
        return name.endswith(".pth") or name.partition(".")[0] in self._modules

    def _compared(self) -> bool:
        return any(times_of(path) != times for path, times in self._files.items())


def _events(data: bytes) -> Iterable[tuple[int, int, str]]:
    at = 0
    while at < len(data):
        number, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield number, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length


def times_of(path: str) -> list[int]:
    """When a file was changed, its size, its inode; all 0 if it is not there."""
    try:
        status = Path(path).stat()
    except OSError:
        return [0, 0, 0]
    return [status.st_mtime_ns, status.st_size, status.st_ino]
