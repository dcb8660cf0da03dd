"""What modules print while they are loaded: a program would print it at its own import.

Owns taking it, module by module, and passing it on. A module that prints is refused, unless that is
allowed: then programs do not print it. Functions of `os` may be a module's by the end.
"""

from __future__ import annotations

import fcntl
import posix
from collections.abc import Sequence
from typing import Any

from pasture_image.inside import observing, recording, streams

_NUMBERS = (1, 2)
_STREAMS = (0, *_NUMBERS)
_recorder: Any = None


class Recorder:
    """Takes what is printed inside a `with` block, and passes it on at its end."""

    def __init__(self, files: Sequence[int]) -> None:
        """Open what it needs. Before modules open files.

        Args:
            files: descriptors of two empty ones.
        """
        self._files = files
        self._plain = [posix.dup(number) for number in _NUMBERS]
        self._bytes = 0
        self._began: list[object] = []

    def __enter__(self) -> None:
        global _recorder
        streams.flush()
        for number, file in zip(_NUMBERS, self._files, strict=True):
            posix.dup2(file, number)
        _recorder = self
        self._began = _state()

    def __exit__(self, *_: object) -> None:
        global _recorder
        _recorder = None
        streams.flush()
        if _state() != self._began:
            observing.note([("state", "its standard streams")])
        for number, file, plain in zip(_NUMBERS, self._files, self._plain, strict=True):
            posix.dup2(plain, number)
            posix.close(plain)
            data = posix.pread(file, posix.fstat(file).st_size, 0)
            while data:
                data = data[posix.write(number, data) :]
            posix.close(file)

    def take(self, module: str) -> None:
        """Note it if something was printed since the last call."""
        streams.flush()
        now = sum(posix.fstat(file).st_size for file in self._files)
        if now > self._bytes:
            observing.note([("output", module)])
        self._bytes = now


def _state() -> list[object]:
    """What a program's own import would leave of the streams: which files, and their flags."""
    found = list[object]()
    with recording.own():
        for number in _STREAMS:
            try:
                status = posix.fstat(number)
            except OSError:
                continue
            found += (number, status.st_dev, status.st_ino)
            found += (fcntl.fcntl(number, get) for get in (fcntl.F_GETFL, fcntl.F_GETFD))
    return found


def take(module: str) -> None:
    """All that was printed by now is one module's."""
    if _recorder is not None:
        _recorder.take(module)
