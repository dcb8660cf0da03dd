"""Pipes, pairs of sockets, events and epolls that lead nowhere out of the process: made again.

An event loop that a module makes when it is loaded has some (Twisted's reactor, asyncio's loops).
All that the kernel knows of them can be read, so each program gets new ones under the same numbers,
as it would have by `python`. Owns finding and making them. Where one has another end, or holds
something that was not read yet, it is left: the build then names it. Closes by `posix`: gevent puts
another function into `os`.

Source: proc_pid_fdinfo(5), epoll(7), pipe(7), unix(7).
"""

from __future__ import annotations

import fcntl
import os
import posix
import select
import sys
from collections import namedtuple
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_FIONREAD = 0x541B
_STANDARD = 2
_KEPT = os.O_NONBLOCK | os.O_ACCMODE

_epoll: Any = None


def begin() -> None:
    """Before modules are loaded: gevent takes the class out of its module."""
    global _epoll
    _epoll = select.epoll


class _Made(namedtuple("_Made", "kind numbers flags state", defaults=((),))):
    """What is made again: of a pipe or a pair both numbers.

    Attributes:
        kind: `pipe`, `pair`, `event` or `epoll`.
        flags: of each number.
        state: of an event its count, and whether it is a semaphore; of an epoll what it watches: a
            number and events, one after the other.
    """


_made: list[_Made] = []


def prepare() -> None:
    """Note what there is, with a plain file in its place. In the process that will be copied."""
    found = dict(_open())
    _made.extend((*_pipes(found), *_pairs(found), *_events(found)))
    there = {number for one in _made for number in one.numbers}
    _made.extend(_epolls(found, there))
    if not _made:
        return
    null = os.open(os.devnull, os.O_RDONLY)
    for one in _made:
        for number in one.numbers:
            os.dup2(null, number, inheritable=False)
    posix.close(null)


def begin_program() -> None:
    """Make all of them again. Where a copy has come to life."""
    for one in _made:
        for made, number, flags in zip(_again(one), one.numbers, one.flags, strict=True):
            os.dup2(made, number, inheritable=False)
            posix.close(made)
            os.set_blocking(number, not flags & os.O_NONBLOCK)
        if one.kind == "epoll":
            _watch(one)


def _again(one: _Made) -> tuple[int, ...]:
    if one.kind == "pipe":
        return os.pipe()
    if one.kind == "event":
        count, is_semaphore = one.state
        return (os.eventfd(count, os.EFD_CLOEXEC | (os.EFD_SEMAPHORE if is_semaphore else 0)),)
    if one.kind == "epoll":
        epoll = _epoll()
        return (os.dup(epoll.fileno()),)
    import _socket

    first, second = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    return first.detach(), second.detach()


def _watch(one: _Made) -> None:
    epoll = _epoll.fromfd(os.dup(one.numbers[0]))
    for number, events in zip(one.state[::2], one.state[1::2], strict=True):
        epoll.register(number, events)
    epoll.close()


# -- what there is


def _open() -> Iterator[tuple[int, str]]:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):
            if int(name) > _STANDARD and not os.get_inheritable(int(name)):
                yield int(name), os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115


def _flags(number: int) -> int:
    return fcntl.fcntl(number, fcntl.F_GETFL)


def _is_empty(number: int) -> bool:
    held: bytes = fcntl.ioctl(number, _FIONREAD, bytes(4))
    return not any(held)


def _pipes(found: dict[int, str]) -> Iterator[_Made]:
    by_inode: dict[str, list[int]] = {}
    for number, path in found.items():
        if path.startswith("pipe:["):
            by_inode.setdefault(path, []).append(number)
    plain = _pipe_bytes()
    for ends in by_inode.values():
        ends.sort(key=lambda number: _flags(number) & os.O_ACCMODE)
        flags = tuple(map(_flags, ends))
        modes = tuple(one & os.O_ACCMODE for one in flags)
        if modes == (os.O_RDONLY, os.O_WRONLY) and not any(one & ~_KEPT for one in flags):
            if _is_empty(ends[0]) and fcntl.fcntl(ends[0], fcntl.F_GETPIPE_SZ) == plain:
                yield _Made("pipe", tuple(ends), flags)


def _pipe_bytes() -> int:
    ends = os.pipe()
    try:
        return fcntl.fcntl(ends[0], fcntl.F_GETPIPE_SZ)
    finally:
        for number in ends:
            posix.close(number)


def _pairs(found: dict[int, str]) -> Iterator[_Made]:
    """Sockets without names that this process, or the one that it was forked from, has made."""
    left = [number for number, path in found.items() if path.startswith("socket:[")]
    left = [number for number in left if _is_own(number)]
    while left:
        number = left.pop()
        other = _other_end(number, left)
        if other is not None:
            left.remove(other)
            yield _Made("pair", (number, other), (_flags(number), _flags(other)))


def _is_own(number: int) -> bool:
    import _socket

    copy = _socket.socket(fileno=os.dup(number))
    try:
        level = _socket.SOL_SOCKET
        pid = int.from_bytes(copy.getsockopt(level, _socket.SO_PEERCRED, 4), sys.byteorder)
        return (
            (copy.family, copy.type) == (_socket.AF_UNIX, _socket.SOCK_STREAM)
            and not copy.getsockname() and not copy.getpeername()
            and pid in (os.getpid(), os.getppid())
            and _is_empty(number)
        )  # fmt: skip
    except OSError:
        return False
    finally:
        copy.close()


def _other_end(number: int, others: list[int]) -> int | None:
    """Where a byte comes out that goes in here; it is taken out again."""
    with suppress(OSError):
        os.write(number, b"\0")
    for other in others:
        if not _is_empty(other):
            os.read(other, 1)
            return other
    return None


def _state(number: int) -> list[list[str]]:
    with open(f"/proc/self/fdinfo/{number}") as file:  # noqa: PTH123
        return [line.split() for line in file]


def _events(found: dict[int, str]) -> Iterator[_Made]:
    for number, path in found.items():
        if path == "anon_inode:[eventfd]":
            fields = {words[0]: words[-1] for words in _state(number)}
            semaphore = int(fields.get("eventfd-semaphore:", "0"))
            state = (int(fields["eventfd-count:"], 16), semaphore)
            yield _Made("event", (number,), (_flags(number),), state)


def _epolls(found: dict[int, str], there: set[int]) -> Iterator[_Made]:
    """Of which each watches files that are made again, under their numbers as Python's does."""
    for number, path in found.items():
        if path != "anon_inode:[eventpoll]":
            continue
        rows = [words for words in _state(number) if words[0] == "tfd:"]
        watched = [(int(row[1]), int(row[3], 16), int(row[5], 16)) for row in rows]
        if all(target in there and data & 0xFFFFFFFF == target for target, _, data in watched):
            state = tuple(value for target, events, _ in watched for value in (target, events))
            yield _Made("epoll", (number,), (_flags(number),), state)
