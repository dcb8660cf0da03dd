"""Parts of an image in a file that need no process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pasture.errors import ImageFailed
from pasture_image.build import image_file
from pasture_image.build.document import Document, Remark
from pasture_image.build.making import variables

pytestmark = pytest.mark.once


def test_an_image_is_made_with_the_variables_that_matter_and_those_that_are_named() -> None:
    environ = {"HOME": "/root", "PYTHONPATH": "/a", "TOKEN": "x", "MODE": "fast", "LC_ALL": "C"}
    found, named = variables(environ, ["MODE", "NONE", "HOME=/home/app", "EMPTY="], ["TO", "LC_"])
    given = {"HOME": "/home/app", "LC_ALL": "C", "MODE": "fast", "EMPTY": "", "TOKEN": "x"}
    assert (found, named) == ({"PYTHONPATH": "/a", **given}, tuple(sorted(given)))


DOCUMENT = Document(
    pasture="1",
    python="/bin/python",
    version="3.14.5",
    options=("-u",),
    preload=("json",),
    modules=("json", "sys"),
    libraries=("/lib/a.so",),
    files=("/a.py",),
    variables=("HOME",),
    holds=("HOME",),
    notes=(Remark("random", "a", "b"),),
    kernel="6",
    processor="x",
)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A file with pages, a manifest and a document; no interpreter is in it."""
    path = tmp_path / "app.img"
    pages = os.memfd_create("pages")
    try:
        os.ftruncate(pages, 40 * 4096)
        os.pwrite(pages, b"x" * 5000, 3 * 4096)
        image_file.write(path, pages, b"manifest", DOCUMENT, 0o640, lambda file: None)
    finally:
        os.close(pages)
    return path


def document_of(image: Path) -> Document:
    with image_file.opened(image) as (_, document):
        return document


def test_an_image_is_read_as_it_was_written(image: Path) -> None:
    assert document_of(image) == DOCUMENT
    assert image.stat().st_mode & 0o777 == 0o640
    content = image.read_bytes()
    assert content[3 * 4096 : 3 * 4096 + 5000] == b"x" * 5000
    assert content[40 * 4096 :].startswith(b"manifest")


def test_each_byte_of_an_image_counts(image: Path) -> None:
    content = image.read_bytes()
    for at in (*range(0, 4096, 61), *range(4096, len(content), 977), len(content) - 1):
        image.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(ImageFailed):
            document_of(image)
    for other in (content[:-1], content + b"\0", b"", content[:4096]):
        image.write_bytes(other)
        with pytest.raises(ImageFailed):
            document_of(image)


def test_an_image_that_is_not_wanted_takes_no_place(image: Path) -> None:
    before = image.read_bytes()

    def refuse(_: object) -> None:
        raise ImageFailed("no")

    pages = os.memfd_create("pages")
    os.ftruncate(pages, 8192)
    with pytest.raises(ImageFailed):
        image_file.write(image, pages, b"", DOCUMENT, 0o600, refuse)
    os.close(pages)
    assert image.read_bytes() == before
    assert [path.name for path in image.parent.iterdir()] == ["app.img"]
