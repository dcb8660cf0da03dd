"""The messages between the controller and the mold, over a pair of sockets that keep bounds.

Both ends are processes of one user, who has started both to run the same tests, so a message is a
pickle. A worker's socket travels with the message that asks for the worker.
"""

from __future__ import annotations

import os
import pickle
import socket
from typing import Any, NamedTuple

from pasture.trust.unix_sockets import past_reset

_MAX_BYTES = 1 << 20


class Wanted(NamedTuple):
    """To the mold: fork this worker; its socket comes with the message."""

    id: str
    workerinput: dict[str, Any]
    basetemp: str | None  # the run's; each worker has a folder in it


class SetsUp(NamedTuple):
    """From the mold: it sets up fixtures, whose end may take long."""


class Sealed(NamedTuple):
    """From the mold: everything is collected. Seconds by phase, and what the seal reported.

    Attributes:
        kept_s: how long it has been kept, in a later run.
        again: files that were collected again.
        notes: what the user should know.
    """

    seconds: dict[str, float]
    tests: int
    report: str
    kept_s: float | None = None
    again: int = 0
    notes: tuple[str, ...] = ()


class Forked(NamedTuple):
    """From a worker: its first message."""

    id: str
    pid: int


class Declined(NamedTuple):
    """From the mold: this worker, or all without a name, must be xdist's own."""

    reason: str
    id: str | None = None
    interrupted: bool = False  # by the user: no worker is wanted any more


class Hello(NamedTuple):
    """To a kept process: the state of a new run. Its socket and stderr come along."""

    options: dict[str, Any]
    environment: dict[str, str]
    conditions: dict[str, Any]


class Kept(NamedTuple):
    """From the process that serves a run of a kept collection: its own pid."""

    pid: int


class Unfit(NamedTuple):
    """From a kept process that ends: why it cannot serve this run."""

    reason: str


class Stop(NamedTuple):
    """To a kept process: end."""


Message = Wanted | SetsUp | Sealed | Forked | Declined | Hello | Kept | Unfit | Stop


class Channel:
    def __init__(self, socket: socket.socket) -> None:
        self.socket = socket
        self.descriptors: list[int] = []

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(one), cls(other)

    def send(self, message: Message, *descriptors: int) -> None:
        """Send a message. OSError: the other end is closed, or the message is too large."""
        socket.send_fds(self.socket, [pickle.dumps(message)], descriptors, socket.MSG_NOSIGNAL)

    def receive(self) -> Message | None:
        """The next message; None at the end. The receiver closes the files in `descriptors`.

        Bytes that are not a message are an end, too.
        """
        try:
            data, self.descriptors, _, _ = past_reset(
                lambda: socket.recv_fds(self.socket, _MAX_BYTES, 2)
            )
        except OSError:
            return None
        for descriptor in self.descriptors:
            os.set_inheritable(descriptor, False)
        try:
            message: object = pickle.loads(data)
        except Exception:  # pickle raises any exception
            return None
        return message if isinstance(message, Message) else None

    def close(self) -> None:
        self.socket.close()
