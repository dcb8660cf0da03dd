"""Holders whose end gives something back: descriptors, exports of buffers, files, callbacks.

Each holds as an attribute of its own, or of the object that it has a view of. The seal leaves them
mortal, and what refers to them.
"""

from __future__ import annotations

import array
import ctypes
import io
import mmap
import os
import pickle
import select
import socket
import sqlite3
import tempfile
import weakref
import zipfile
from multiprocessing import connection
from operator import attrgetter
from random import Random
from typing import Any

from holders import holder
from holders_classes import Keeper
from world import Getter


class _Bytes(bytearray):
    held: Any


class _Array(array.array):  # type: ignore[type-arg]
    held: Any


class _Map(mmap.mmap):
    held: Any


@holder
def in_exporter(held: Any, rng: Random) -> tuple[Any, Getter]:
    below: Any = rng.choice([_Bytes(96), _Array("d", range(12)), _Map(-1, 8192)])
    below.held = held
    kind = rng.randrange(4)
    if kind == 0:
        return [memoryview(below)[8:24] for _ in range(3)], lambda made: made[1].obj.held
    if kind == 1:
        made = (ctypes.c_char * 8).from_buffer(below)
        return (below, made), lambda made: made[0].held
    if kind == 2:
        return pickle.PickleBuffer(below), lambda made: made.raw().obj.held
    return iter([memoryview(below), below]), lambda made: made.__reduce__()[1][0][1].held


class _Pipe(connection.Connection):
    held: Any


class _Socket(socket.socket):
    held: Any


@holder
def in_channel(held: Any, rng: Random) -> tuple[Any, Getter]:
    made: Any
    if rng.random() < 0.5:
        r, w = os.pipe()
        os.close(w)
        made = _Pipe(r, writable=False)
    else:
        made = _Socket()
    made.held = held
    return made, attrgetter("held")


class _File(io.FileIO):
    held: Any

    def __del__(self) -> None:
        self.close()


@holder
def in_file_with_finalizer(held: Any, rng: Random) -> tuple[Any, Getter]:
    below = _File(os.devnull, "w")
    below.held = held
    if rng.random() < 0.5:
        return io.TextIOWrapper(io.BufferedWriter(below)), attrgetter("buffer.raw.held")
    return below, attrgetter("held")


class _Archive(zipfile.ZipFile):
    held: Any


@holder
def in_archive(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = _Archive(io.BytesIO(), "w")
    made.writestr("name", b"content")
    made.held = held
    return made, attrgetter("held")


@holder
def in_temporary_file(held: Any, rng: Random) -> tuple[Any, Getter]:
    made: Any = tempfile.NamedTemporaryFile() if rng.random() < 0.5 else tempfile.TemporaryFile()
    keeper = Keeper(held)
    return {"file": made, "keeper": keeper}, lambda made: made["keeper"].held


class _Connection(sqlite3.Connection):
    held: Any


@holder
def in_database(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = _Connection(":memory:")
    made.held = held
    if rng.random() < 0.5:
        rows = made.execute("select 1 union select 2")
        next(rows)
        return rows, attrgetter("connection.held")
    return made, attrgetter("held")


@holder
def beside_poll(held: Any, rng: Random) -> tuple[Any, Getter]:
    return (select.epoll(), os.scandir("/proc/self/fd"), Keeper(held)), lambda made: made[2].held


@holder
def in_watched(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = Keeper(held)
    weakref.finalize(made, id, 1).atexit = False
    return made, attrgetter("held")
