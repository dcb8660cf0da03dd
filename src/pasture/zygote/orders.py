"""What a server asks a builder for, and what it gets: messages over a pair of sockets.

A message is JSON, with descriptors beside it. Both ends are this package's own.
"""

from __future__ import annotations

import dataclasses
import json
import socket
from dataclasses import dataclass
from typing import Any

from pasture.zygote.changes import FileTimes
from pasture.zygote.notes import Note

_MOST_BYTES = 1 << 26
_MOST_DESCRIPTORS = 64


@dataclass(frozen=True, slots=True)
class Order:
    """What an image is to be.

    Attributes:
        preload: names of modules, imported in this order.
        python: path of the interpreter that it stands for.
        options: of the interpreter.
        rehearse: path of a program that does what programs will do; "" for none.
    """

    preload: tuple[str, ...]
    python: str
    options: tuple[str, ...] = ()
    rehearse: str = ""


@dataclass(frozen=True, slots=True)
class Built:
    """What has been made.

    Attributes:
        problem: why nothing was; "" if it was.
        hint: what to do about it.
        seal: the seal's report, one line.
        files: of modules that are loaded: path, time of the last change, size, inode.
        folders: in which modules are looked for.
        modules: names of what is loaded.
        sought: top-level names that were looked for, found or not.
        variables: which variables have to have which values; None: must not be set.
        notes: what programs get as it was when modules were loaded.
        bytes: of pages that are its own.
    """

    problem: str = ""
    hint: str = ""
    seal: str = ""
    files: tuple[FileTimes, ...] = ()
    folders: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    sought: tuple[str, ...] = ()
    variables: dict[str, str | None] = dataclasses.field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    bytes: int = 0


def send(channel: socket.socket, message: Order | Built, descriptors: list[int]) -> None:
    """Send a message; the other end gets descriptors of its own."""
    data = json.dumps(dataclasses.asdict(message)).encode()
    socket.send_fds(channel, [len(data).to_bytes(8, "little")], descriptors)
    channel.sendall(data)


def receive(channel: socket.socket) -> tuple[Order, list[int]]:
    """The order, and descriptors: of the environment (`starter`), and of the images that it is on
    top of, the root first."""
    fields, descriptors = _receive(channel)
    return Order(**_tuples(fields)), descriptors


def receive_built(channel: socket.socket) -> tuple[Built, list[int]]:
    """What has been made, with the descriptors of its manifest and its pages.

    Raises:
        EOFError: the builder has ended.
    """
    fields, descriptors = _receive(channel)
    fields["notes"] = [Note(*note) for note in fields.get("notes", ())]
    return Built(**_tuples(fields)), descriptors


def _receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, descriptors, _, _ = socket.recv_fds(channel, 8, _MOST_DESCRIPTORS)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or length > _MOST_BYTES:
        raise EOFError("the other end is gone")
    data = bytearray()
    while len(data) < length:
        part = channel.recv(min(1 << 16, length - len(data)))
        if not part:
            raise EOFError("the other end is gone")
        data += part
    found: dict[str, Any] = json.loads(data)
    return found, list(descriptors)


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
