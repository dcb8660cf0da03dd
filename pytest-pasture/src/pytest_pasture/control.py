"""The messages between the controller and the mold, over a pair of sockets that keep bounds.

Both ends are processes of one test run, forked from each other, so a message is a pickle. A
worker's socket travels beside the message that asks for the worker.
"""

from __future__ import annotations

import os
import pickle
import socket
from dataclasses import dataclass, field
from typing import Any

_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """To the mold: fork this worker, whose socket lies beside."""

    id: str
    workerinput: dict[str, Any]
    basetemp: str | None  # of the run; each worker has a folder in it


@dataclass(frozen=True, slots=True)
class Sealed:
    """From the mold: everything is collected. Seconds by phase, and what the seal reported."""

    seconds: dict[str, float]
    tests: int
    report: str


@dataclass(frozen=True, slots=True)
class Forked:
    """From a worker, before all else."""

    id: str
    pid: int


@dataclass(frozen=True, slots=True)
class Declined:
    """From the mold: this worker, or all of them where it names none, must be xdist's own."""

    reason: str
    id: str | None = None
    interrupted: bool = False  # by the user: no worker is wanted any more


Message = Wanted | Sealed | Forked | Declined


@dataclass(slots=True)
class Channel:
    """One end."""

    socket: socket.socket
    descriptors: list[int] = field(default_factory=list)

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(one), cls(other)

    def send(self, message: Message, *descriptors: int) -> None:
        """OSError: the other end is gone, or the message is too large."""
        socket.send_fds(self.socket, [pickle.dumps(message)], descriptors, socket.MSG_NOSIGNAL)

    def receive(self) -> Message | None:
        """The next message; None at the end. Its descriptors are in `descriptors`, and ours."""
        try:
            data, self.descriptors, _, _ = socket.recv_fds(self.socket, _MAX_BYTES, 1)
        except OSError:
            return None
        for descriptor in self.descriptors:
            os.set_inheritable(descriptor, False)
        if not data:
            return None
        message: Message = pickle.loads(data)
        return message

    def close(self) -> None:
        self.socket.close()
