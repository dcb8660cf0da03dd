"""How a file is known to be the same: the kernel's time of its last change, size, inode, device."""

from __future__ import annotations

import os

FileTimes = tuple[str, int, int, int, int]
"""Path of a file, when it was changed, its size, its inode, its device."""

Times = list[int]
MISSING: Times = [0, 0, 0, 0]


def times_of(path: str) -> Times:
    """When a file was changed, its size, its inode, its device; all 0 if it is not there."""
    try:
        status = os.stat(path)  # noqa: PTH116 - hundreds at a time, while a program waits
    except (OSError, ValueError):
        return MISSING
    return [status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev]


def file_times(path: str) -> FileTimes:
    """The times of a file, with its path."""
    changed, size, inode, device = times_of(path)
    return path, changed, size, inode, device
