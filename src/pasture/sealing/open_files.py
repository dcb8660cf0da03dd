"""Writes open files before the fork and at the end of a process, as finalization would.

Owns which files are flushed or closed, their order, and how long it waits for a lock. A file is an
object that derives from `io.IOBase`, or one that can be written to and is closed by its `__del__`,
such as a `ZipFile`.

Invariants: a file that writes into another file comes before that file. An error of one file does
not stop the rest. Only waits for locks have a limit; writing has none.
"""

from __future__ import annotations

import gc
import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from pasture.interpreter import native

_STREAMS = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
"""Types whose whole content is written by `flush`."""

_HOLD_NOTHING = frozenset({io.BytesIO, io.StringIO, io.FileIO, io.BufferedReader})
_NOT_BELOW = (type, ModuleType, FunctionType, CodeType, FrameType)
_LOOKED_AT_MAX = 200
_LOOK_AGAIN_S = 0.01
_HELD = 1


class LockWait:
    """The time for which other threads may still keep files locked, for all files together.

    Attributes:
        left_s: seconds that are left of the limit.
        given_up: files that a thread kept locked for longer, without the files below them.
    """

    def __init__(self, limit_s: float) -> None:
        self.given_up: list[object] = []
        self._known: set[int] = set()
        self.left_s = limit_s

    def can_write(self, file: object, *below: object) -> bool:
        """Wait until the locks of a file and of those below it are free; whether it may be written.

        A lock that a thread of the parent held at the fork is never released: the data is the
        parent's then.
        """
        files = (file, *below)
        while any(held := [native().stream_lock(one) for one in files]):
            if _HELD not in held:
                return False
            if self.left_s <= 0:
                if id(file) not in self._known:
                    self.given_up.append(file)
                self._known.update(map(id, files))
                return False
            time.sleep(_LOOK_AGAIN_S)
            self.left_s -= _LOOK_AGAIN_S
        return True


class _Probe(io.RawIOBase):
    """The bottom of a stream whose lock is held while it is asked to write."""

    writer: io.BufferedWriter | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        native().learn_stream_owner(self.writer)
        return len(data)


def learn_locks() -> None:
    """Have the extension find out where streams keep the owner of their lock."""
    probe = _Probe()
    probe.writer = io.BufferedWriter(probe, 16)  # there may be no memory for the usual buffer
    probe.writer.write(b" ")
    probe.writer.flush()
    probe.writer.detach()
    probe.writer = None


def flush(wait: LockWait) -> None:
    """Flush open files: children must not inherit data that is still to be written."""
    _each(wait, lambda file: None if _reads_ahead(file) else _flush(file), Exception)


def finish(wait: LockWait, inherited: Iterable[object] = ()) -> None:
    """Write all data of open files, as their destructors would. At the end of a process.

    Archives and compressed files are closed: only that writes their ends. Files below the standard
    streams are still in use and left open. Inherited files are only flushed: their parent closes
    them.
    """
    standard = {id(part) for name in ("stdout", "stderr") for part in _parts(name)}
    kept = {*standard, *map(id, inherited)}

    def write(file: Any) -> None:
        if id(file) in kept or issubclass(type(file), _STREAMS):
            is_written = False
            with suppress(Exception):
                _flush(file)
                is_written = True
            if not is_written and id(file) not in standard:
                native().finalize(file)  # tries again, and reports what is lost
        elif not _is_io(file) or (not file.closed and file.writable()):
            native().finalize(file)

    # an error of the destructor would be ignored, too
    _each(wait, write, BaseException)


def _parts(name: str) -> Iterator[object]:
    """A standard stream and the buffer below it. The interpreter flushes the stream at the end, and
    ends with 120 if that fails: so its buffer must not be closed before.
    """
    stream: Any = getattr(sys, name, None)
    yield stream
    if issubclass(type(stream), io.TextIOWrapper):
        with suppress(ValueError):  # it has been detached
            yield stream.buffer


def _flush(file: Any) -> None:
    if issubclass(type(file), _STREAMS) or (_is_io(file) and not file.closed and file.writable()):
        file.flush()


def _reads_ahead(file: Any) -> bool:
    """Whether a file has read ahead: a flush would move the offset that processes share."""
    if not issubclass(type(file), io.BufferedRandom):
        return False
    try:
        return bool(file.raw.tell() > file.tell())  # words: ok
    except (OSError, ValueError):
        return False


def _is_io(file: object) -> bool:
    """Whether an object is a file, by its type: a proxy would answer for another object."""
    return issubclass(type(file), io.IOBase)


def _each(wait: LockWait, write: Callable[[Any], None], ignored: type[BaseException]) -> None:
    files = [file for file in native().files() if type(file) not in _HOLD_NOTHING]
    known = {id(file) for file in files}
    below = {id(file): _directly_below(file, known) for file in files}
    for file in _outermost_first(files, below):
        for _ in range(2):
            try:
                if wait.can_write(file, *_all_below(file, below)):
                    write(file)
            except MemoryError:
                continue  # there may be memory again
            except ignored:
                pass  # closed, detached, or its other end is gone
            break


_Below = Mapping[int, Sequence[object]]


def _directly_below(file: object, known: set[int]) -> Sequence[object]:
    """The files that a file writes into, directly or through other objects."""
    found: list[object] = []
    seen = {id(file)}
    pending = [file]
    while pending and len(seen) < _LOOKED_AT_MAX:
        for referent in gc.get_referents(pending.pop()):
            if id(referent) in seen or issubclass(type(referent), _NOT_BELOW):
                continue
            seen.add(id(referent))
            if id(referent) in known:
                found.append(referent)
            elif gc.is_tracked(referent) and not _is_long(referent):
                pending.append(referent)
    return found


def _is_long(referent: object) -> bool:
    return type(referent) in (dict, list, tuple, set) and len(referent) > _LOOKED_AT_MAX  # type: ignore[arg-type]


def _all_below(file: object, below: _Below) -> list[object]:
    found = {id(file): file}
    pending = [file]
    while pending:
        for one in below[id(pending.pop())]:
            if id(one) not in found:
                found[id(one)] = one
                pending.append(one)
    return list(found.values())[1:]


def _outermost_first(files: Sequence[object], below: _Below) -> list[object]:
    """Files in order, each before those below it; with a cycle any is first."""
    order: list[object] = []  # innermost first
    seen: set[int] = set()
    for file in files:
        pending: list[tuple[object, bool]] = [(file, False)]
        while pending:
            one, is_done = pending.pop()
            if is_done:
                order.append(one)
            elif id(one) not in seen:
                seen.add(id(one))
                pending.append((one, True))
                pending += [(lower, False) for lower in below[id(one)]]
    return order[::-1]
