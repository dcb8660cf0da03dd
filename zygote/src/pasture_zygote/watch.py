"""The kernel's queue of what happens in folders (inotify(7)), and where it reports everything.

Looking into the queue when nothing has happened is one system call. It knows nothing of another
host, of writing through a mapping, and of what a path leads to: `changes` compares those.

By hand, though packages wrap inotify: they read in a thread of their own or are compiled, and the
server reads the queue itself between two requests.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

_IN_MODIFY, IN_ATTRIB, _IN_MOVED, _IN_CREATE, _IN_DELETE = 0x2, 0x4, 0xC0, 0x100, 0x200
_IN_DELETE_SELF, _IN_MOVE_SELF, _IN_UNMOUNT, IN_OVERFLOW = 0x400, 0x800, 0x2000, 0x4000
IN_LOST = _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_UNMOUNT
"""The folder is another one, or is there no more."""

_MASK = (
    _IN_MODIFY | IN_ATTRIB | _IN_MOVED | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF
)
_MAX_READS = 100
"""At once, however much is written at the same time; the rest is for the next look."""

_EVENT = struct.Struct("iIII")
_LOCAL = frozenset(
    (
        *(0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x2FC12FC1, 0xF2F52010, 0x858458F6),
        *(0xCA451A4E, 0x794C7630, 0x73717368, 0xE0F5E1E2, 0x4D44),
    )
)
"""`f_type` of statfs(2): ext2 to ext4, XFS, Btrfs, tmpfs, ZFS, F2FS, ramfs, bcachefs, overlayfs,
SquashFS, EROFS, FAT. Of any other it is not known that all who write to it are seen."""


class Watch:
    """One queue; without one where the kernel gives none."""

    def __init__(self) -> None:
        import ctypes  # not in a process that is copied: it keeps a file open

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._status = ctypes.create_string_buffer(256)
        self._queue = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Watch no more."""
        if self._queue >= 0:
            os.close(self._queue)
            self._queue = -1

    def add(self, folder: str) -> int | None:
        """Watch a folder; returns its number, None if not everything there would be seen.

        A folder that is watched already keeps its number.
        """
        path = os.fsencode(folder)
        if self._queue < 0 or self._libc.statfs(path, self._status) < 0:
            return None
        if int.from_bytes(self._status.raw[:4], "little") not in _LOCAL:
            return None
        number = self._libc.inotify_add_watch(self._queue, path, _MASK)
        return number if number >= 0 else None

    def events(self) -> Iterator[tuple[int, int, str]]:
        """What has happened: number of the folder, `IN_*`, name of the entry or empty."""
        for _ in range(_MAX_READS if self._queue >= 0 else 0):
            try:
                data = os.read(self._queue, 1 << 16)
            except BlockingIOError:
                return
            yield from _split(data)


def _split(data: bytes) -> Iterator[tuple[int, int, str]]:
    at = 0
    while at < len(data):
        number, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield number, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length
