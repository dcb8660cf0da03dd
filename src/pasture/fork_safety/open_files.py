"""The open files of this process, and where a stream leads to. Opens, closes and changes none.

The list is read once and handed on, so that all checks see the same moment.
"""

from __future__ import annotations

import _socket  # not `socket`: parents without it would have it sealed in
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native

_FILES = Path("/proc/self/fd")
_MAX = 1 << 16

Files = Sequence[tuple[int, os.stat_result]]
"""Number of each open file, and what it is."""


def open_files() -> Files:
    """The files that are open now."""
    try:
        numbers: Iterable[int] = [int(path.name) for path in _FILES.iterdir()]
    except OSError:  # without /proc: the first numbers
        numbers = range(min(os.sysconf("SC_OPEN_MAX"), _MAX))
    found = []
    for number in numbers:
        with suppress(OSError):  # the one with which the folder was listed
            found.append((number, os.fstat(number)))
    return found


def name_of(number: int) -> str:
    """Path of an open file; its number where the path is unknown."""
    try:
        return os.fspath((_FILES / str(number)).readlink())
    except OSError:
        return f"with the descriptor {number}"


def pipe_ends(files: Files) -> tuple[set[int], set[int]]:
    """Inodes of the pipes that this process reads, and of those that it writes."""
    ends: tuple[set[int], set[int]] = set(), set()
    for number, what in files:
        if stat.S_ISFIFO(what.st_mode):
            with suppress(OSError):
                ends[bool(fcntl.fcntl(number, fcntl.F_GETFL) & os.O_WRONLY)].add(what.st_ino)
    return ends


def is_locked(number: int) -> bool:
    """Whether this process has locked an open file, by flock or fcntl. Source: proc(5), fdinfo."""
    with suppress(OSError):
        return "\nlock:" in Path(f"/proc/self/fdinfo/{number}").read_text()
    return False


def is_only_read(number: int, files: Files) -> bool:
    """Whether processes may share an open SQLite database: each reads it at offsets, for itself.

    So it is opened for reading, between two statements (it locks nothing), and without a log whose
    index processes share (sqlite.org/wal.html). PROJ holds such databases.
    """
    if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY or is_locked(number):
        return False
    index = f"{name_of(number)}-shm"
    return all(name_of(one) != index for one, _ in files)


class Socket(NamedTuple):
    """Kind, state and ends of a socket."""

    number: int
    inode: int
    family: int
    kind: int
    is_listening: bool
    is_connecting: bool
    is_connected: bool
    is_at_end: bool  # no process will ever read a byte there
    acked: int  # bytes that TCP has sent, with the one of its SYN; -1: not known
    received: int  # bytes that TCP has received; -1: not known
    own: str  # its address: "127.0.0.1:80", a path, or ""
    peer: str


def describe(number: int) -> Socket | None:
    """The socket with a number; None for another file. Changes nothing of it.

    Flags and errors are the open file's: the program, its threads and other processes share them.
    """
    try:
        inode = os.fstat(number).st_ino
        return Socket(number, inode, *native().describe_stream(number))
    except OSError:
        return None
    except UnsupportedInterpreter:
        return _describe_in_python(number, inode)


def _describe_in_python(number: int, inode: int) -> Socket | None:
    # An object that is made under a default timeout makes the open file non-blocking.
    timeout = _socket.getdefaulttimeout()
    _socket.setdefaulttimeout(None)
    try:
        one = _socket.socket(fileno=number)
    except OSError:
        return None
    finally:
        _socket.setdefaulttimeout(timeout)
    try:
        listens = bool(one.getsockopt(_socket.SOL_SOCKET, _socket.SO_ACCEPTCONN))
        own, other = _words(one.getsockname), _words(one.getpeername)
        kind = one.type & 0xF
        known = listens, False, other is not None, False, -1, -1, own or "", other or ""
        return Socket(number, inode, one.family, kind, *known)
    except OSError:
        return None
    finally:
        one.detach()


def _words(address: Callable[[], Any]) -> str | None:
    """An address of the extension's in words; None for an end that does not exist."""
    try:
        found = address()
    except OSError:
        return None
    if isinstance(found, tuple):
        return f"{found[0]}:{found[1]}"
    return found if isinstance(found, str) else os.fsdecode(found)


def peer(number: int) -> str:
    """The other end of a connected stream; "" for any other socket, and for socket pairs."""
    one = describe(number)
    return one.peer if one is not None and one.kind == _socket.SOCK_STREAM else ""
