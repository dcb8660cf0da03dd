"""An image in a file: written whole or not at all, read, checked.

Owns the layout: a header of one page, the image's pages, the manifest, a document for people
(JSON). src/stub/image_file.h reads the first three. A program maps the pages as they are, so a
start reads none but those that it touches. Header and manifest have checksums that each start
compares; all behind the header has a SHA-256 that `check` compares.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pasture.errors import ImageFailed
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture.trust import private_files
from pasture_image.build import document
from pasture_image.build.document import Document
from pasture_image.build.manifest import checksum
from pasture_image.build.regions import filled, write_at
from pasture_tools.proc import images

MAGIC = 0x314547414D495350
"""`images.MAGIC` with a digit: the version of the layout."""

_HEADER = struct.Struct("<8Q32s")
_CHECKSUM_AT = 16
_PIECE_BYTES = 2 << 20
"""The kernel caches what is written at once in as large pieces as it can, of up to a huge page: 16
pages of one are mapped in a tenth of the time that single pages take."""


class _Header(NamedTuple):
    magic: int
    header_bytes: int
    checksum: int
    file_bytes: int
    manifest_at: int
    manifest_bytes: int
    document_at: int
    document_bytes: int
    sha256: bytes


def write(
    path: Path,
    pages: int,
    manifest: bytes,
    document: Document,
    mode: int,
    inspect: Callable[[BinaryIO], None],
) -> None:
    """Write an image next to its name, and move it there.

    Args:
        pages: descriptor of a file whose first page is left free for the header.
        mode: of the file.
        inspect: called with the finished file; if it raises, there is none.

    Raises:
        ImageFailed: it cannot be written there.
    """
    try:
        with private_files.replacing(path) as file:
            _fill(file.fileno(), pages, manifest, json.dumps(document.as_json()).encode())
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            inspect(file)
    except OSError as error:
        raise ImageFailed(
            f"{path} cannot be written: {error.strerror or error}",
            hint="choose a file in a folder of your own",
        ) from None


def _fill(file: int, pages: int, manifest: bytes, document: bytes) -> None:
    digest = hashlib.sha256()
    pages_end = os.fstat(pages).st_size
    for end in range(_PIECE_BYTES, pages_end + _PIECE_BYTES, _PIECE_BYTES):
        begin = max(end - _PIECE_BYTES, OS_PAGE_BYTES)
        data = os.pread(pages, min(end, pages_end) - begin, begin)
        digest.update(data)
        pieces = list(filled(data))
        if 2 * sum(len(piece) for _, piece in pieces) >= len(data):
            pieces = [(0, data)]
        for at, piece in pieces:
            write_at(file, piece, begin + at)
    manifest_at = -(-pages_end // OS_PAGE_BYTES) * OS_PAGE_BYTES
    tail = bytes(manifest_at - pages_end) + manifest + document
    digest.update(tail)
    write_at(file, tail, pages_end)
    document_at = manifest_at + len(manifest)
    parts = (manifest_at, len(manifest), document_at, len(document))
    page = bytearray(OS_PAGE_BYTES)
    head = (MAGIC, OS_PAGE_BYTES, 0, document_at + len(document), *parts, digest.digest())
    _HEADER.pack_into(page, 0, *head)
    struct.pack_into("<Q", page, _CHECKSUM_AT, checksum(page))
    write_at(file, page, 0)


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, Document]]:
    """An open image, with what it says of itself for people: all of it is as it was written.

    It may be any user's: nothing of it may decide what is run. What is done with the image is done
    with this open file: another one may have its name by then.

    Raises:
        ImageFailed: it is none, or it is damaged.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _no_image(path, "file") from None
    except OSError as error:
        raise ImageFailed(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise _no_image(path, "file")
    with os.fdopen(number, "rb") as file:
        yield file, _document(path, file)


def _document(path: Path, file: BinaryIO) -> Document:
    header = _header(path, file)
    file.seek(OS_PAGE_BYTES)
    if hashlib.file_digest(file, "sha256").digest() != header.sha256:  # type: ignore[arg-type]
        raise _damaged(path, "its pages are not those that were written")
    end = header.document_at + header.document_bytes
    if end != header.file_bytes or header.document_bytes > document.MAX_BYTES:
        raise _damaged(path, "its header makes no sense")
    file.seek(header.document_at)
    try:
        return document.parsed(file.read(header.document_bytes))
    except ValueError as error:
        raise _damaged(path, f"what it says of itself makes no sense ({error!s:.80})") from None


def _header(path: Path, file: BinaryIO) -> _Header:
    """As src/stub/image_file.c, header_flaw."""
    page = bytearray(file.read(OS_PAGE_BYTES))
    if len(page) < OS_PAGE_BYTES or not page.startswith(images.MAGIC):
        raise _no_image(path, "image")
    header = _Header(*_HEADER.unpack_from(page))
    if header.magic != MAGIC:
        raise ImageFailed(f"{path} is of another version of pasture", hint="build it again")
    if checksum(page) != header.checksum:
        raise _damaged(path, "its header is not the one that was written")
    if os.fstat(file.fileno()).st_size != header.file_bytes:
        raise _damaged(path, "it was truncated, or has grown")
    return header


def _no_image(path: Path, kind: str) -> ImageFailed:
    return ImageFailed(f"{path} is no {kind}", hint="pasture image build -o FILE makes one")


def _damaged(path: Path, how: str) -> ImageFailed:
    return ImageFailed(f"{path} is damaged: {how}", hint="build it again")
