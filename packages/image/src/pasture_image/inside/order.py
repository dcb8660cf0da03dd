"""What an image is to be, and what a builder has made: a message over a pair of sockets.

It is JSON in a file in memory, whose descriptor comes with others, so one system call takes
all of it. Modules that are loaded share the builder's end: what comes from there is checked.
Invariant: of an `Order` a builder gets no value that must not lie in its memory, and so in images.
"""

from __future__ import annotations

import _socket
import dataclasses
import json
import os
import socket
from dataclasses import dataclass, field
from typing import Any

from pasture.trust.records import decoded
from pasture_image.inside import memory
from pasture_image.inside.notes import SENTENCES, Note

_MAX_DESCRIPTORS = 64
_HEAD = b"built"


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
        application: `MODULE:NAME` of the WSGI or ASGI application that serves `warm`; "" for the
            first that is found.
        warm: requests that it serves before the image is taken.
        mode: of the file.
        allow: what programs may get as it was for the build (`notes.REFUSED`).
        folder: the builder's working directory, which is empty.
    """

    python: str
    preload: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    rehearse: str = ""
    application: str = ""
    warm: tuple[str, ...] = ()
    mode: int = 0o600
    allow: tuple[str, ...] = ()
    folder: str = ""

    @property
    def for_builder(self) -> Order:
        """What may lie in the image: variables come as they are read (`variables`)."""
        return dataclasses.replace(self, environ={})


@dataclass(frozen=True, slots=True)
class Built:
    """What has been made.

    Attributes:
        problem: why nothing was; "" if it was.
        hint: what to do about it.
        files: that the load has looked at.
        changed: paths of what changed meanwhile.
        left: of these, what the load itself has made.
        modules: names of what is loaded.
        variables: which variables have to have which values; None: must not be set.
        notes: what programs get as it was when modules were loaded.
        libraries: files that are mapped.
    """

    problem: str = ""
    hint: str = ""
    files: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    variables: dict[str, str | None] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    libraries: tuple[str, ...] = ()


def send(channel: int, built: Built, descriptors: list[int]) -> None:
    """Send a message through a socket; the other end gets descriptors of its own."""
    number = memory.written("pasture-built", json.dumps(dataclasses.asdict(built)).encode())
    end: Any = _socket.socket(fileno=channel)  # no class that gevent has put into `socket`
    try:
        socket.send_fds(end, [_HEAD], [number, *descriptors])
    finally:
        end.detach()
        os.close(number)


def receive_built(channel: socket.socket) -> tuple[Built, list[int]]:
    """What has been made, with the descriptors of its manifest and its pages.

    Raises:
        EOFError: the builder has ended.
        ValueError, TypeError: no builder says that.
    """
    head, descriptors, flags, _ = socket.recv_fds(channel, len(_HEAD), _MAX_DESCRIPTORS)
    try:
        if head != _HEAD or flags & socket.MSG_CTRUNC or not descriptors:
            raise EOFError("the other end is gone")
        for number in descriptors:
            os.set_inheritable(number, False)
        found: Built = decoded(Built, json.loads(memory.read(descriptors[0])))
        if any("\0" in file for file in found.files):
            raise ValueError("a path without end")
        if any(note.code not in SENTENCES for note in found.notes):
            raise ValueError("no such note")
    except BaseException:
        for number in descriptors:
            os.close(number)
        raise
    os.close(descriptors[0])
    return found, descriptors[1:]
