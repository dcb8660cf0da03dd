"""The open files of this process, and where a stream leads to. Opens and closes none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_FILES = Path("/proc/self/fd")
_MAX = 1 << 16


def open_files() -> Iterator[tuple[int, os.stat_result]]:
    """Number of each open file, and what it is."""
    for number in _numbers():
        try:
            yield number, os.fstat(number)
        except OSError:
            continue  # the one with which the folder was listed


def _numbers() -> Iterable[int]:
    try:
        return [int(path.name) for path in _FILES.iterdir()]
    except OSError:  # without /proc: all that there can be, within reason
        return range(min(os.sysconf("SC_OPEN_MAX"), _MAX))


def name_of(number: int) -> str:
    """Path of an open file, as far as it is known."""
    try:
        return os.fspath((_FILES / str(number)).readlink())
    except OSError:
        return f"with the descriptor {number}"


def peer(number: int) -> str:
    """The other end of a connected stream; "" for any other socket, and for socket pairs."""
    # Not `socket`: most parents have it, the others would have it sealed in.
    import _socket

    copy = os.dup(number)
    try:
        connection = _socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return ""
    try:
        if connection.type & 0xF != _socket.SOCK_STREAM:
            return ""
        address: Any = connection.getpeername()
    except OSError:
        return ""
    finally:
        connection.close()
    if isinstance(address, tuple):
        return f"{address[0]}:{address[1]}"
    return address if isinstance(address, str) else os.fsdecode(address)


def listening_at(number: int) -> str:
    """The address that a socket is bound to and waits at, as a server's; "" for any other."""
    import _socket

    copy = os.dup(number)
    limit_s = _socket.getdefaulttimeout()
    _socket.setdefaulttimeout(None)  # else the flags of the file, which all share, would change
    try:
        found = _socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return ""
    finally:
        _socket.setdefaulttimeout(limit_s)
    try:
        if found.type & 0xF != _socket.SOCK_STREAM or _is_connected(found):
            return ""
        address: Any = found.getsockname()
    except OSError:
        return ""
    finally:
        found.close()
    if isinstance(address, tuple):
        return f"{address[0]}:{address[1]}" if address[1] else ""
    return os.fsdecode(address).replace("\0", "@")


def _is_connected(found: Any) -> bool:
    try:
        found.getpeername()
    except OSError:
        return False
    return True
