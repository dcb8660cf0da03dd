"""What is said over the socket: requests of `pasture-python`, and orders of `pasture zygote`.

A request is one message: strings, each ended by a zero byte. `run 1` comes from the stub
(src/stub/request.c) and gets `serve NAME` with descriptors, or `exec REASON`. Orders are JSON and
get JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_BYTES = 1 << 17
RUN = b"run 1"
ORDER = b"order 1"


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
