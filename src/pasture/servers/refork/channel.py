"""What a server and one of its processes tell each other: messages over a pair of sockets.

A message is a word, a few numbers or texts, and open files. When a process ends, its end of the
channel is closed. So the other side always learns of it and never waits for a dead process.
"""

from __future__ import annotations

import array
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from select import POLLIN, poll  # now: gevent replaces them in its workers
from time import monotonic
from typing import Any

_MOST_BYTES = 16_384
_MOST_TEXT = 1000  # of a text; a character takes up to 12 bytes
_MOST_FILES = 4


@dataclass(frozen=True, slots=True)
class Message:
    """What was received.

    Attributes:
        word: what it is about; "closed" when the other end is gone.
        files: descriptors, the receiver's to close.
    """

    word: str
    values: dict[str, Any] = field(default_factory=dict)
    files: tuple[int, ...] = ()


CLOSED = Message("closed")


class Channel:
    """One end."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, word: str, files: Sequence[int] = (), **values: Any) -> bool:
        """Send a message; False if the other side is gone or does not read.

        Never waits. Texts are cut after 1,000 characters.
        """
        short = {k: v[:_MOST_TEXT] if isinstance(v, str) else v for k, v in values.items()}
        data = json.dumps([word, short]).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
        try:
            self._socket.sendmsg(
                [data], rights if files else [], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
            )
        except OSError:
            return False
        return True

    def receive(self, timeout_s: float = 0.0) -> Message | None:
        """The next message; None if none came in time. Signal handlers run meanwhile."""
        if not wait_for([self], timeout_s):
            return None
        try:
            data, ancillary, _, _ = self._socket.recvmsg(
                _MOST_BYTES,
                socket.CMSG_SPACE(_MOST_FILES * array.array("i").itemsize),
                socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC,
            )
        except BlockingIOError:
            return None
        except OSError:
            return CLOSED
        if not data:
            return CLOSED
        word, values = json.loads(data)
        return Message(word, values, _files(ancillary))


def open_channel() -> tuple[Channel, Channel]:
    """Both ends. Not inherited through an exec."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(here), Channel(there)


def channel_of(file: int) -> Channel:
    """An end that was received as a descriptor."""
    return Channel(socket.socket(fileno=file))


def wait_for(channels: Sequence[Channel], timeout_s: float) -> list[Channel]:
    """Those with something to receive, as soon as there is one; empty after the timeout."""
    polled = poll()
    by_number = {channel.fileno(): channel for channel in channels}
    if -1 in by_number:
        return [by_number[-1]]
    for number in by_number:
        polled.register(number, POLLIN)
    deadline = monotonic() + timeout_s
    ready = polled.poll(max(0.0, deadline - monotonic()) * 1000)
    return [by_number[number] for number, _ in ready]


def _files(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, ...]:
    numbers = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return tuple(numbers)
