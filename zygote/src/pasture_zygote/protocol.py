"""What is said over the socket: requests of `pasture-python`, and orders of `pasture zygote`.

A request is one message: strings, each ended by a zero byte. `run 2` comes from the stub
(src/stub/request.c) and gets `serve NAME` with descriptors, or `exec REASON`. To the former the
stub says `taken`, or `left REASON` where the program is run by the interpreter all the same. Orders
are JSON and get JSON. What does not fit into a message lies in a file in memory beside it.
"""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pasture_zygote import memory

RUN = b"run 2"
ORDER = b"order 1"
TAKEN = b"taken"
LEFT = b"left "
_IN_MEMORY = b"in memory 1"
_MAX_MESSAGE_BYTES = 1 << 16
_MAX_REASON_BYTES = 200


@dataclass(frozen=True, slots=True)
class Request:
    """What a stub asks for.

    Attributes:
        name: of the zygote; "" for the one that fits best.
        python: path of the interpreter that would run otherwise.
        imports: top-level names that the program imports.
        options: of the interpreter.
    """

    name: str
    python: str
    imports: tuple[str, ...]
    options: tuple[str, ...]


def parse(message: bytes) -> Request | dict[str, Any]:
    """A request or an order.

    Raises:
        ValueError: it is neither.
        RecursionError: it is nested too deeply.
    """
    kind, _, rest = message.partition(b"\0")
    if kind == ORDER:
        order = json.loads(rest)
        if not isinstance(order, dict):
            raise ValueError("an order is a JSON object")
        return order
    words = [os.fsdecode(word) for word in rest.split(b"\0")]
    if kind != RUN or len(words) < 4 or words.pop() != "":
        raise ValueError("neither a request nor an order")
    name, python, imports, *options = words
    return Request(name, python, tuple(filter(None, imports.split(","))), tuple(options))


def order(fields: Mapping[str, Any]) -> bytes:
    """An order, as a message."""
    return ORDER + b"\0" + json.dumps(fields).encode()


def reason_left(message: bytes) -> str:
    """Why a stub that was served has left the program to the interpreter; "" if it has not.

    Raises:
        ValueError: the message says neither.
    """
    if message == TAKEN:
        return ""
    if not message.startswith(LEFT):
        raise ValueError("neither taken nor left")
    reason = message.removeprefix(LEFT)[:_MAX_REASON_BYTES].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in reason) or "no reason"


def send(connection: socket.socket, message: bytes) -> None:
    """Send a message of any length.

    Raises:
        OSError: the other end has gone, or there is no memory.
    """
    if len(message) <= _MAX_MESSAGE_BYTES:
        connection.sendall(message)
        return
    number = memory.written("pasture-message", message)
    try:
        socket.send_fds(connection, [_IN_MEMORY], [number])
    finally:
        os.close(number)


def receive(connection: socket.socket) -> bytes:
    """A message of any length; never waits for more than its head.

    Raises:
        OSError: there is none.
        ValueError: it lies where reading could wait, or is too long.
    """
    size = socket.CMSG_SPACE(array.array("i").itemsize)
    data, beside, flags, _ = connection.recvmsg(_MAX_MESSAGE_BYTES, size, socket.MSG_CMSG_CLOEXEC)
    numbers = descriptors(beside)
    try:
        if flags & socket.MSG_TRUNC:
            raise ValueError("the message is too long")
        if data != _IN_MEMORY or len(numbers) != 1:
            return data
        return memory.read(numbers[0])
    finally:
        for number in numbers:
            os.close(number)


def descriptors(beside: list[tuple[int, int, bytes]]) -> list[int]:
    """Those that came beside a message."""
    found = array.array("i")
    for level, kind, data in beside:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)
