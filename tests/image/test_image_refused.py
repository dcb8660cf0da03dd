"""An image that does not fit is not used: the interpreter runs the program, and says why."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from images import BIN, OS_PAGE, SAID, STUB, Description, Images

from pasture_image.build import host

pytestmark = [pytest.mark.once, pytest.mark.integration]

PATH_MAX = 4096
BOUNDARY = Path(__file__).parent.parent / "programs" / "behind_boundary.py"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def grow(path: Path, by: int) -> None:
    os.truncate(path, path.stat().st_size + by)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda path: grow(path, -1), "was truncated, or has grown"),
    "cut to nothing": (lambda path: os.truncate(path, 0), "is no image"),
    "grown": (lambda path: grow(path, 1), "was truncated, or has grown"),
    "another file": (lambda path: path.write_bytes(bytes(9000)), "is no image"),
    "another version": (lambda path: flip(path, 7), "of another version of pasture"),
    "a byte of the header": (lambda path: flip(path, 30), "header is damaged"),
    "the last byte of the header": (lambda path: flip(path, 4095), "header is damaged"),
    "a byte of the manifest": (
        lambda path: flip(path, Description(path).header.manifest_at + 300),
        "description makes no sense",
    ),
    "the last byte of the manifest": (
        lambda path: flip(path, Description(path).header.document_at - 1),
        "description makes no sense",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_image_is_refused_at_each_start(
    images: Images, copied: Path, damage: str
) -> None:
    harm, said = DAMAGES[damage]
    assert images.why() == ""
    harm(copied)
    assert said in images.why()
    assert images.run("-c", "print(1)").out == b"1\n"
    assert images.pasture("show", "--check", str(copied)).returncode == 17


# -- who could write it


def test_an_image_that_others_may_write_is_refused(images: Images, copied: Path) -> None:
    for mode in (0o620, 0o602):
        copied.chmod(mode)
        assert "another user may write to the image" in images.why()
    copied.chmod(0o644)
    assert images.why() == ""


@AS_ROOT
def test_an_image_of_another_user_is_refused_but_for_one_of_roots(
    images: Images, copied: Path
) -> None:
    """As in a layer of a container, where files are root's."""
    os.chown(copied, 1234, 1234)
    assert "belongs to another user" in images.why()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "app.img"
        shutil.copyfile(copied, path)
        # That user may not be able to run this interpreter.
        environ = {**SAID, "PASTURE_PYTHON": "/bin/true", "PASTURE_IMAGE": str(path)}
        words = [str(BOUNDARY), "user", str(STUB), "-c", "print(1)"]
        for mode, said in ((0o644, "the image is of another interpreter"), (0o600, "be opened")):
            path.chmod(mode)
            ended = images.run(*words, program=Path(sys.executable), environ=environ)
            assert said in ended.err.decode()


def test_what_is_no_plain_file_is_refused_and_never_waited_for(
    images: Images, copied: Path
) -> None:
    copied.unlink()
    assert "cannot be opened" in images.why()
    os.mkfifo(copied, 0o600)
    assert "no plain file" in images.why()
    copied.unlink()
    copied.mkdir()
    assert "the folder has no image" in images.why()
    shutil.rmtree(copied)


# -- the machine


@pytest.mark.parametrize("index", range(10))
def test_an_image_of_another_machine_is_refused(
    images: Images, described: Description, index: int
) -> None:
    """One that has another number, or a feature less."""
    at, fact = described["facts_at"] + 8 * index, host.facts(STUB)[index]
    is_set = fact.name.startswith("set of features")
    assert described[at] == fact.value
    described[at] = (1 << 64) - 1 if is_set else fact.value ^ 1
    described.write()
    assert f"the image was made under another {fact.name}" in images.why()
    assert images.run("-c", "print(1)").out == b"1\n"
    if is_set:  # the image needs a feature less
        described[at] = fact.value & fact.value - 1
        described.write()
        assert images.why() == ""


def limited(limit: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(limit, (value, value))


LIMITS = {
    "stack": (limited(resource.RLIMIT_STACK, 4 << 20), "another limit of the stack"),
    "address space": (limited(resource.RLIMIT_AS, 40 << 20), "refuses to map the image"),
    "data": (limited(resource.RLIMIT_DATA, 12 << 20), "refuses to map the image"),
    "descriptors": (limited(resource.RLIMIT_NOFILE, 8), "cannot be opened"),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_under_a_limit_that_the_image_exceeds_the_interpreter_runs(
    images: Images, limit: str
) -> None:
    lower, said = LIMITS[limit]
    assert said in images.why(preexec_fn=lower)
    by_image = images.run("-c", "print(1)", preexec_fn=lower)
    assert by_image == images.python("-c", "print(1)", preexec_fn=lower)


# -- the program


AT_THE_START = (
    *("PYTHONPATH", "PYTHONHASHSEED", "LOCPATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"),
    *("OPENSSL_CONF", "NPY_DISABLE_CPU_FEATURES"),
)


@pytest.mark.parametrize(
    ("words", "environ", "said"),
    [
        (("-q", "-c", "pass"), {}, "an option: -q"),
        *((("-c", "pass"), {name: "1"}, f": {name}") for name in AT_THE_START),
        ((".",), {}, "no plain file"),
    ],
)
def test_what_the_image_is_not_for_is_the_interpreters(
    images: Images, words: tuple[str, ...], environ: dict[str, str], said: str
) -> None:
    assert said in images.why(*words, environ=environ)
    assert images.run(*words, environ=environ) == images.python(*words, environ=environ)


def test_an_image_is_of_one_interpreter(images: Images, tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(BIN / "python")
    shutil.copy(STUB, tmp_path)
    assert "of another interpreter" in images.why(program=tmp_path / STUB.name)


def test_check_runs_no_program_that_an_image_names(images: Images, described: Description) -> None:
    """It may be another user's, and its document may say anything."""
    path, head, content = described.path, described.header, described.data
    other = path.parent / "other"
    other.mkdir()
    (other / "pasture-python").write_text(f"#!/bin/sh\ntouch {other}/was-run\n")
    (other / "pasture-python").chmod(0o755)
    document = json.loads(content[head.document_at :])
    document["python"] = str(other / "python")
    document["options"] = ["-c", f"open({str(other / 'was-run')!r}, 'w')"]
    content[head.document_at :] = json.dumps(document).encode()
    described.header = head._replace(
        file_bytes=len(content),
        document_bytes=len(content) - head.document_at,
        sha256=hashlib.sha256(content[OS_PAGE:]).digest(),
    )
    described.write()
    for mode, status, said in ((0o600, 0, ""), (0o666, 17, "another user may write to the image")):
        path.chmod(mode)
        done = images.pasture("show", "--check", str(path))
        assert (done.returncode, (other / "was-run").exists()) == (status, False), done.stderr
        assert said in done.stderr


def test_the_image_of_a_folder_that_fits_is_used(images: Images, copied: Path) -> None:
    parent, folder = copied.parent, {"PASTURE_IMAGE": f"{copied.parent}/"}
    shutil.copy(copied, parent / "older.img")
    os.utime(parent / "older.img", (1, 1))
    copied.write_bytes(copied.read_bytes()[:5000])  # the last one that was written
    for name in (".new.img.part", ".new.img", "notes.txt", "img"):
        (parent / name).write_bytes(b"")
    assert images.why(environ=folder) == ""
    assert "truncated" in images.why("-q", "-c", "pass", environ=folder)
    (parent / "older.img").unlink()
    assert "truncated" in images.why(environ=folder)
    copied.rename(parent / "copy")  # as a path that is cut off would end
    copied.symlink_to("copy")
    far = str(parent).ljust(PATH_MAX - len("/copy") - 1, "/")
    assert "truncated" in images.why(environ={"PASTURE_IMAGE": far[:-4]})
    assert "the folder has no image" in images.why(environ={"PASTURE_IMAGE": far})
    for number in range(70):  # more than are looked at
        (parent / f"{number}.img").write_text("none")
    assert "the file is no image" in images.why(environ=folder)
    for path in parent.glob("*.img"):
        path.unlink()
    assert "the folder has no image" in images.why(environ=folder)
    assert "there is no image" in images.why(environ={"PASTURE_IMAGE": ""})
