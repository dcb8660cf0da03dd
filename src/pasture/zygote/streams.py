"""The standard streams, made anew for the descriptors that a process has.

Source: CPython 3.14 Python/pylifecycle.c, create_stdio and init_sys_streams. Encoding and error
handler depend on the environment and the options alone, which are those of the image: they are
taken over from the streams that are there.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

_Kinds = tuple[str, str]
_kinds: tuple[_Kinds, _Kinds, _Kinds] | None = None
_unbuffered = False
_NAMES = ("stdin", "stdout", "stderr")


def remember() -> None:
    """Keep how text is encoded; the streams have to be open."""
    global _kinds, _unbuffered
    found = [
        (stream.encoding, stream.errors or "strict")
        for stream in (getattr(sys, f"__{name}__") for name in _NAMES)
    ]
    _kinds = (found[0], found[1], found[2])
    _unbuffered = sys.__stdout__.write_through  # type: ignore[union-attr]


def open_standard() -> None:
    """Put new streams in the place of `sys.stdin`, `sys.stdout` and `sys.stderr`."""
    assert _kinds is not None
    for number, (name, (encoding, errors)) in enumerate(zip(_NAMES, _kinds, strict=True)):
        stream = _stream(number, name, encoding, errors)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _stream(number: int, name: str, encoding: str, errors: str) -> io.TextIOWrapper | None:
    try:
        os.fstat(number)
    except OSError:
        return None
    writes = number > 0
    try:
        buffer = open(
            number, "wb" if writes else "rb", 0 if _unbuffered and writes else -1, closefd=False
        )
    except OSError:
        return None
    raw: Any = getattr(buffer, "raw", buffer)
    raw.name = f"<{name}>"
    stream = io.TextIOWrapper(
        buffer,
        encoding,
        errors,
        newline="\n",
        line_buffering=not _unbuffered and (raw.isatty() or number == 2),
        write_through=_unbuffered,
    )
    stream.mode = "w" if writes else "r"  # type: ignore[misc]
    return stream
