"""Messages between a server and one of its processes, over a pair of sockets.

A message is a word, a few numbers or texts, and open files. When a process ends, its end of the
channel is closed. So the other side always notices it and never waits for a dead process.
`socket.recv_fds` ignores its flags, MSG_CMSG_CLOEXEC among them, so it cannot receive the files.
The server's end may be root's, and the other one an unprivileged worker's, which an attacker may
control. Invariant: the server's end returns only messages of its vocabulary, without files, and
with the sender's pid from the kernel. Everything else is `MALFORMED`.
"""

from __future__ import annotations

import array
import errno
import json
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from select import POLLIN, poll  # imported now: gevent replaces them in its workers
from time import monotonic, sleep
from typing import Any

from pasture.trust.unix_sockets import past_reset

MAX_TEXT = 1000
"""Limit of a text in characters, each of up to 12 bytes."""

_MAX_BYTES = 16_384
_MAX_FILES = 4
_AGAIN_S = (0.0, 0.01, 0.09)
_CREDENTIALS = struct.Struct("iII")  # struct ucred: unix(7)

Vocabulary = Mapping[str, Mapping[str, Callable[[Any], bool]]]
"""For each word the names of its values, and a check for each value."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


FROM_CHILDREN: Vocabulary = {
    "loaded": {},
    "plain": {"why": _is_text},
    "spawned": {},
    "not spawned": {"why": _is_text, "for_now": lambda value: isinstance(value, bool)},
    "sealed": {"report": _is_text},
    "refused": {"why": _is_text},
}
"""`loaded` and `plain` come from the first mold; `spawned` from a new worker, whose pid the kernel
adds; the rest from a mold."""


@dataclass(frozen=True, slots=True)
class Message:
    word: str  # its kind; "closed" if the other end is closed
    values: dict[str, Any] = field(default_factory=dict)
    files: tuple[int, ...] = ()  # descriptors, which the receiver closes
    sender: int = 0  # pid of the sender, from the kernel; 0 on a trusted channel


CLOSED = Message("closed")
MALFORMED = Message("malformed")


class Channel:
    """One end of a channel; the vocabulary is that of the other side, None if that is trusted."""

    def __init__(self, end: socket.socket, vocabulary: Vocabulary | None = None) -> None:
        self._socket = end
        self._vocabulary = vocabulary
        self.fileno, self.close = end.fileno, end.close

    def send(self, word: str, files: Sequence[int] = (), **values: Any) -> bool:
        """Send a message, with its texts cut; False if the other side is closed, or does not read.

        Waits at most a tenth of a second if the kernel lacks memory.
        """
        short = {k: v[:MAX_TEXT] if isinstance(v, str) else v for k, v in values.items()}
        data = json.dumps([word, short]).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
        for wait_s in _AGAIN_S:
            if wait_s:
                sleep(wait_s)
            try:
                self._socket.sendmsg(
                    [data], rights if files else [], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
                )
            except OSError as error:
                if error.errno not in (errno.ENOBUFS, errno.ENOMEM):
                    return False
            else:
                return True
        return False

    def receive(self, timeout_s: float = 0.0) -> Message | None:
        """The next message; None after the timeout. Signal handlers run meanwhile."""
        if not wait_for([self], timeout_s):
            return None
        trusts = self._vocabulary is None
        # Without space for files the kernel passes none, and reports it.
        space = socket.CMSG_SPACE(_MAX_FILES * 4) if trusts else socket.CMSG_LEN(_CREDENTIALS.size)
        try:
            data, ancillary, flags, _ = past_reset(
                lambda: self._socket.recvmsg(
                    _MAX_BYTES, space, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
                )
            )
        except BlockingIOError:
            return None
        except OSError:
            return CLOSED
        if not data:
            return CLOSED
        if self._vocabulary is not None:
            cut = flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
            return MALFORMED if cut else _checked(data, ancillary, self._vocabulary)
        word, values = json.loads(data)
        return Message(word, values, _files(ancillary))


def open_channel(vocabulary: Vocabulary | None = None) -> tuple[Channel, Channel]:
    """Both ends of a channel; the first accepts only this vocabulary. An exec closes them."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if vocabulary is not None:
        here.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return Channel(here, vocabulary), Channel(there)


def channel_of(file: int) -> Channel:
    """The channel of a received descriptor."""
    return Channel(socket.socket(fileno=file))


def wait_for(channels: Sequence[Channel], timeout_s: float) -> list[Channel]:
    """The channels with a message, as soon as one has it; empty after the timeout."""
    polled = poll()
    by_number = {channel.fileno(): channel for channel in channels}
    if -1 in by_number:
        return [by_number[-1]]
    for number in by_number:
        polled.register(number, POLLIN)
    deadline = monotonic() + timeout_s
    ready = polled.poll(max(0.0, deadline - monotonic()) * 1000)
    return [by_number[number] for number, _ in ready]


def _checked(
    data: bytes, ancillary: list[tuple[int, int, bytes]], vocabulary: Vocabulary
) -> Message:
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return MALFORMED
    match said:
        case [str(word), dict(values)] if word in vocabulary:
            checks = vocabulary[word]
            fits = values.keys() == checks.keys()
            if fits and all(check(values[name]) for name, check in checks.items()):
                sender = 0
                for level, kind, credentials in ancillary:
                    if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                        sender, _, _ = _CREDENTIALS.unpack(credentials)
                return Message(word, values, sender=sender)
    return MALFORMED


def _files(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, ...]:
    numbers = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return tuple(numbers)
