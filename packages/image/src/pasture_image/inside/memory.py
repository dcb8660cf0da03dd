"""Files in memory (memfd) that carry what is too long for a message, and images."""

from __future__ import annotations

import fcntl
import os

from pasture.proc import memory_file

MAX_BYTES = 1 << 24
"""Of what is read at once."""


def create(name: str) -> int:
    """A descriptor of an empty file; it can be sealed."""
    return memory_file.create(name, may_run=False)


def written(name: str, data: bytes) -> int:
    """A descriptor of a file with a content.

    Raises:
        OSError: there is no memory, or no descriptor.
    """
    number = create(name)
    try:
        fill(number, data)
    except OSError:
        os.close(number)
        raise
    return number


def fill(number: int, data: bytes) -> None:
    """Write the content of a file.

    Raises:
        OSError: there is no memory.
    """
    with os.fdopen(number, "wb", closefd=False) as file:
        file.write(data)


def read(number: int) -> bytes:
    """All that lies in a file in memory.

    Raises:
        ValueError: it is another kind of file, which could keep its reader waiting, or too long.
    """
    try:
        fcntl.fcntl(number, memory_file.GET_SEALS)
    except OSError:
        raise ValueError("not a file in memory") from None
    length = os.fstat(number).st_size
    if length > MAX_BYTES:
        raise ValueError("the message is too long")
    found = bytearray()
    while len(found) < length and (part := os.pread(number, length - len(found), len(found))):
        found += part
    return bytes(found)
