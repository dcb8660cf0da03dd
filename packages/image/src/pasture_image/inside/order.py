"""What an image is to be, and what a builder has made: messages over a pair of sockets.

A message is JSON in a file in memory, whose descriptor comes with others, so one system call takes
all of it. Modules that are loaded share the builder's end: what comes from there is checked.
Invariant: of an `Order` a builder gets no value that must not lie in its memory, and so in images.
"""

from __future__ import annotations

import array
import dataclasses
import json
import os
import socket
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pasture.trust.records import decoded
from pasture_image.inside import memory
from pasture_image.inside.notes import SENTENCES, Note

_MAX_DESCRIPTORS = 64
_HEAD = b"built"


class Secret(NamedTuple):
    """A value that must not be in an image.

    Attributes:
        owner: of it, for people.
        text: the value.
    """

    owner: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Order:
    """What an image is to be.

    Attributes:
        python: path of the interpreter that it stands for.
        preload: names of modules, imported in this order.
        options: of the interpreter.
        environ: variables that modules find.
        named: names of those of them that were named for the image.
        rehearse: path of a program that does what programs will do; "" for none.
        rehearses_imports: whether modules that the rehearsal imports are loaded.
        application: `MODULE:NAME` of the WSGI or ASGI application that serves `warm`; "" for the
            first that is found.
        warm: requests that it serves before the image is taken.
        cpu: `processors.NATIVE`, or "" for processors of this machine's model.
        mode: of the file.
        secrets: that must not be in it.
        facts: of the machine that are compared: rule and value of each (`host`).
        allow: what programs may get as it was for the build (`notes.REFUSED`).
        folder: the builder's working directory, which is empty.
    """

    python: str
    preload: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    rehearse: str = ""
    rehearses_imports: bool = False
    application: str = ""
    warm: tuple[str, ...] = ()
    cpu: str = ""
    mode: int = 0o600
    secrets: tuple[Secret, ...] = ()
    facts: tuple[tuple[int, int], ...] = ()
    allow: tuple[str, ...] = ()
    folder: str = ""

    @property
    def for_builder(self) -> Order:
        """What may lie in the image: variables come as they are read (`variables`)."""
        return dataclasses.replace(self, environ={}, secrets=())


@dataclass(frozen=True, slots=True)
class Built:
    """What has been made.

    Attributes:
        problem: why nothing was; "" if it was.
        hint: what to do about it.
        seal: the seal's report, one line.
        files: that the load has looked at.
        changed: paths of what changed meanwhile.
        modules: names of what is loaded.
        variables: which variables have to have which values; None: must not be set.
        notes: what programs get as it was when modules were loaded.
        sizes: bytes of all memory, by where it comes from.
        libraries: files that are mapped.
    """

    problem: str = ""
    hint: str = ""
    seal: str = ""
    files: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    variables: dict[str, str | None] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()


def send(channel: socket.socket, message: Order | Built, descriptors: list[int]) -> None:
    """Send a message; the other end gets descriptors of its own."""
    data = json.dumps(dataclasses.asdict(message)).encode()
    number = memory.written("pasture-order", data)
    try:
        socket.send_fds(channel, [_HEAD], [number, *descriptors])
    finally:
        os.close(number)


def receive(channel: socket.socket) -> tuple[Order, int, int]:
    """The order; descriptors of the environment (`environment`) and of the record (`recording`)."""
    fields, [environ, record] = _receive(channel)
    order: Order = decoded(Order, fields)
    return order, environ, record


def receive_built(channel: socket.socket) -> tuple[Built, list[int]]:
    """What has been made, with the descriptors of its manifest and its pages.

    Raises:
        EOFError: the builder has ended.
        ValueError: no builder says that.
    """
    fields, descriptors = _receive(channel)
    try:
        return _built(fields), descriptors
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        for number in descriptors:
            os.close(number)
        raise ValueError(f"no builder says that: {error!r}") from None


def _receive(channel: socket.socket) -> tuple[Any, list[int]]:
    head, ancillary, flags, _ = channel.recvmsg(
        len(_HEAD), socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = _descriptors(ancillary)
    try:
        if head != _HEAD or flags & socket.MSG_CTRUNC or not descriptors:
            raise EOFError("the other end is gone")
        fields = json.loads(memory.read(descriptors[0]))
    except BaseException:
        for number in descriptors:
            os.close(number)
        raise
    os.close(descriptors[0])
    return fields, descriptors[1:]


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)


def _built(fields: Any) -> Built:
    """The fields, each of its type."""
    found: Built = decoded(Built, fields)
    if any("\0" in file for file in found.files):
        raise ValueError("a path without end")
    if any(note.code not in SENTENCES for note in found.notes):
        raise ValueError("no such note")
    return found
