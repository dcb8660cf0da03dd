"""What a server asks a builder for, and what it gets: messages over a pair of sockets.

A message is JSON in a file in memory, whose descriptor comes with those of images, so one system
call takes all of it. Modules that are loaded share the builder's end: what the server gets is
checked.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from dataclasses import dataclass
from typing import Any

from pasture.display.records import decoded
from pasture_zygote import memory, protocol
from pasture_zygote.notes import SENTENCES, Note
from pasture_zygote.times import FileTimes

_MAX_DESCRIPTORS = 64
_HEAD = b"built"


@dataclass(frozen=True, slots=True)
class FileOrder:
    """What else an image in a file is to be.

    Attributes:
        stub: path of the program that will start out of it.
        facts: of the machine that it is for: rule and value of each (`host`).
        is_checked: whether Python files are compared at each start.
        application: `MODULE:NAME` of a WSGI or ASGI application; "" for the first that is found.
        warm: requests that it serves before the image is taken.
        held: variables that the builder has and programs do not (`baseline`).
        cpu: level of processors that it is for; "" for one like the builder's.
        rehearses_imports: whether modules that the rehearsal imports are loaded.
        learned: text of a profile, built as far as its entries are there.
    """

    stub: str
    facts: tuple[tuple[int, int], ...]
    is_checked: bool = True
    application: str = ""
    warm: tuple[str, ...] = ()
    held: dict[str, str] = dataclasses.field(default_factory=dict)
    cpu: str = ""
    rehearses_imports: bool = False
    learned: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """What an image is to be.

    Attributes:
        preload: names of modules, imported in this order.
        python: path of the interpreter that it stands for.
        options: of the interpreter.
        rehearse: path of a program that does what programs will do; "" for none.
        file: of an image that goes into a file; None of one that a server hands out.
    """

    preload: tuple[str, ...]
    python: str
    options: tuple[str, ...] = ()
    rehearse: str = ""
    file: FileOrder | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """What has been made.

    Attributes:
        problem: why nothing was; "" if it was.
        hint: what to do about it.
        seal: the seal's report, one line.
        files: that lie in its memory, or that modules in it came from.
        folders: names of modules by the folder where they are looked for.
        modules: names of what is loaded.
        variables: which variables have to have which values; None: must not be set.
        notes: what programs get as it was when modules were loaded.
        bytes: of pages that are its own.
        sizes: bytes of all memory, by where it comes from.
        libraries: how each file that is mapped is known, by path; of an image in a file.
    """

    problem: str = ""
    hint: str = ""
    seal: str = ""
    files: tuple[FileTimes, ...] = ()
    folders: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    modules: tuple[str, ...] = ()
    variables: dict[str, str | None] = dataclasses.field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    bytes: int = 0
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    libraries: dict[str, str] = dataclasses.field(default_factory=dict)


def send(channel: socket.socket, message: Order | Built, descriptors: list[int]) -> None:
    """Send a message; the other end gets descriptors of its own."""
    data = json.dumps(dataclasses.asdict(message)).encode()
    number = memory.written("pasture-order", data)
    try:
        socket.send_fds(channel, [_HEAD], [number, *descriptors])
    finally:
        os.close(number)


def receive(channel: socket.socket) -> tuple[Order, list[int]]:
    """The order, and descriptors: of the environment (`starter`), and of the images that it is on
    top of, the root first."""
    fields, descriptors = _receive(channel)
    order: Order = decoded(Order, fields)
    return order, descriptors


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
    head, beside, flags, _ = channel.recvmsg(
        len(_HEAD), socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = protocol.descriptors(beside)
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


def _built(fields: Any) -> Built:
    """The fields, each of its type."""
    found: Built = decoded(Built, fields)
    for path in (*found.folders, *(file[0] for file in found.files)):
        if b"\0" in os.fsencode(path):
            raise ValueError("a path without end")
    if any(note.code not in SENTENCES for note in found.notes):
        raise ValueError("no such note")
    return found
