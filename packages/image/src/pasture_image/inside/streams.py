"""The standard streams of an image, put in order for the descriptors that a process has.

Modules keep references to streams, so the image's own objects are initialized again, in place. The
lowest layer alone is another one, since it never forgets whether it could seek; the old one has the
same descriptor. Owns which state belongs to the process (buffers, whether a stream is a terminal or
can seek) and which to the image: encoding, error handler, and whatever a module has changed.

Source: CPython 3.14 Python/pylifecycle.c, create_stdio and init_sys_streams;
Modules/_io/_iomodule.c, _io_open_impl; Modules/_io/fileio.c, portable_lseek.
"""

from __future__ import annotations

import io
import sys
from collections import namedtuple
from typing import Any

_NAMES = ("stdin", "stdout", "stderr")
_LARGEST_BUFFER_BYTES = 8192 * 1024


class _Stream(namedtuple("_Stream", "text buffer raw kind")):
    """One of the three, as the interpreter has made it.

    Attributes:
        text: it.
        buffer: the layer under it; `raw` where the interpreter is unbuffered.
        raw: the layer that has the descriptor.
        kind: encoding, error handler, line buffering, write-through.
    """


errors = ""
"""What the streams but standard error do with bytes that are no text, where the locale is another
one than the build's; "" for the same."""

_streams: list[_Stream | None] = []


def remember() -> None:
    """Keep the streams, before modules are loaded."""
    for text in (getattr(sys, f"__{name}__") for name in _NAMES):
        buffer = text and text.buffer
        raw = getattr(buffer, "raw", buffer)
        _streams.append(text and _Stream(text, buffer, raw, _kind(text)))


def _kind(text: io.TextIOWrapper) -> tuple[Any, ...]:
    return text.encoding, text.errors, text.line_buffering, text.write_through


def flush() -> None:
    """What modules have printed goes to the build's, and to no program."""
    for stream in _streams:
        for layer in (stream.text, stream.buffer) if stream is not None else ():
            try:
                layer.flush()
            except (OSError, ValueError):  # closed, or detached
                continue


def open_standard() -> None:
    """Put the streams in order. Where a copy has come to life.

    Raises:
        OSError: a descriptor is closed, or cannot be a stream: the interpreter has to say so.
    """
    for number, (name, stream) in enumerate(zip(_NAMES, _streams, strict=True)):
        if stream is not None and not stream.raw.closed:
            _begin(number, name, stream)


def _begin(number: int, name: str, old: _Stream) -> None:
    """A layer that a module has detached stays so."""
    was_buffered = old.buffer is not old.raw
    if was_buffered and not _is_on(old.buffer, "raw", old.raw):
        return
    writes = number > 0
    raw: Any = io.FileIO(number, "wb" if writes else "rb", closefd=False)
    raw.name = f"<{name}>"
    buffer: Any = raw
    if was_buffered:
        buffer = old.buffer
        buffer.__init__(raw, _buffer_bytes(raw))
    is_plain = _is_on(old.text, "buffer", old.buffer) and _kind(old.text) == old.kind
    kind = (old.kind[0], errors, *old.kind[2:]) if errors and number != 2 else old.kind
    if is_plain:
        encoding, handler, _, write_through = kind
        is_line_buffered = not write_through and (number == 2 or raw.isatty())
        text: Any = old.text
        text.__init__(buffer, encoding, handler, "\n", is_line_buffered, write_through)
        text.mode = "w" if writes else "r"
        kind = _kind(text)
    _streams[number] = _Stream(old.text, buffer, raw, kind)


def _is_on(upper: Any, name: str, lower: object) -> bool:
    try:
        return getattr(upper, name) is lower
    except ValueError:  # detached
        return False


def _buffer_bytes(raw: Any) -> int:
    block_bytes: int = raw._blksize
    if sys.version_info >= (3, 14):
        return max(min(block_bytes, _LARGEST_BUFFER_BYTES), io.DEFAULT_BUFFER_SIZE)
    return block_bytes if block_bytes > 1 else io.DEFAULT_BUFFER_SIZE
