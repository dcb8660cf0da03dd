"""Parts of an image in a file that need no process: secrets, the file itself."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from pasture.errors import ImageFailed, UsageError
from pasture_image.build import image_file, leaks
from pasture_image.build.document import Document, Remark
from pasture_image.build.leaks import find, of_file, of_variables
from pasture_image.build.making import variables
from pasture_image.inside.order import Secret

pytestmark = pytest.mark.once


def test_values_of_variables_are_looked_for_but_for_those_that_are_given_or_well_known() -> None:
    environ = {"TOKEN": "0123456789", "PATH": "/usr/bin:/bin", "LC_ALL": "de_DE.UTF-8"}
    environ |= {"PORT": "80", "GIVEN": "given value", "EMPTY": ""}
    secrets, too_short = of_variables(environ, {"GIVEN"})
    assert secrets == [Secret("the variable TOKEN", b"0123456789")]
    assert too_short == ["PORT"]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16-le", "utf-32-le", None])
def test_a_secret_is_found_wherever_a_piece_of_the_file_ends(
    monkeypatch: pytest.MonkeyPatch, encoding: str | None
) -> None:
    monkeypatch.setattr(leaks, "_PIECE_BYTES", 64)
    text = "geheimnisvoll-ä".encode() if encoding else b"\xff\xfe\xfd\0\1\2"  # of no encoding
    secret, needle = Secret("it", text), text.decode().encode(encoding) if encoding else text
    for begin in range(140):
        file = bytes(begin) + needle + bytes(70)
        assert find(io.BytesIO(file), [secret, Secret("other", b"another one")]) == ["it"]
        assert not find(io.BytesIO(file.replace(needle[-2:], b"?!")), [secret])


def test_what_a_file_of_an_installed_module_has_is_no_secret_of_a_variable(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages" / "version.py"
    own = tmp_path / "app" / "settings.py"
    for file, text in ((installed, "machine = 'x86_64'\n"), (own, "TOKEN = 'abcdefgh'\n")):
        file.parent.mkdir()
        file.write_text(text)
    machine = Secret("the variable NVARCH", b"x86_64")
    token = Secret("the variable TOKEN", b"abcdefgh")
    line = Secret("line 1 of the file secrets", b"x86_64")
    paths = [str(tmp_path / "site-packages" / "gone.py"), str(installed), str(own)]
    assert leaks.not_installed([machine, token, line], paths) == [token, line]


def test_of_a_file_lines_and_values_are_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_text(
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----\n"
        "NAME='a value'\nshort\n"
    )
    texts = {secret.text: secret.owner for secret in of_file(path)}
    assert texts[b"MIIEvQIBADANBgkqhkiG9w0BAQEF"] == f"line 2 of the file {path}"
    assert texts[b"a value"] == f"line 4 of the file {path}"
    assert b"-----BEGIN PRIVATE KEY-----" not in texts
    assert texts[path.read_bytes().strip()] == f"the file {path}"
    path.write_text("x\n")
    for wrong in (path, tmp_path / "none"):
        with pytest.raises(UsageError):
            of_file(wrong)


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
