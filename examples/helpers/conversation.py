"""A client for rehearsals: it has the other end of this process's standard input and output."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO


def hold(messages: Iterable[Mapping[str, Any]], *, framed: bool) -> None:
    """Send messages to the server that this process becomes; then its input ends.

    Args:
        messages: of JSON-RPC. After each one with an id its answer is awaited.
        framed: as language servers have them, behind `Content-Length`; else one a line.
    """
    (server_in, client_out), (client_in, server_out) = os.pipe(), os.pipe()
    if os.fork():
        os.dup2(server_in, 0)
        os.dup2(server_out, 1)
        for number in (server_in, server_out, client_in, client_out):
            os.close(number)
        return
    os.close(server_out)
    os.close(server_in)
    with open(client_out, "wb") as out, open(client_in, "rb") as answers:
        for message in messages:
            send(out, message, framed=framed)
            if "id" in message:
                while receive(answers, framed=framed).get("id") != message["id"]:
                    pass  # what the server says by itself
    os._exit(0)


def send(out: BinaryIO, message: Mapping[str, Any], *, framed: bool) -> None:
    """Write one message."""
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    out.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data) if framed else data + b"\n")
    out.flush()


def receive(answers: BinaryIO, *, framed: bool) -> dict[str, Any]:
    """Read one message.

    Raises:
        EOFError: the server has ended.
    """
    line = answers.readline()
    if not line:
        raise EOFError
    if framed:
        size = 0
        while line.strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
            line = answers.readline()
        line = answers.read(size)
    found: dict[str, Any] = json.loads(line)
    return found
