"""An image that does not fit is not used: the interpreter runs the program, and says why."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from images import BIN, STUB, Ended, Images, compiled

from pasture_image.build import host
from pasture_image.build.image_file import _HEADER, _Header
from pasture_image.build.manifest import HEAD_FIELDS, checksum

pytestmark = [pytest.mark.once, pytest.mark.integration]

PATH_MAX = 4096
BOUNDARY = Path(__file__).parent.parent / "programs" / "behind_boundary.py"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def header(path: Path) -> _Header:
    return _Header(*_HEADER.unpack_from(path.read_bytes()))


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (truncate, "was truncated, or has grown"),
    "cut to nothing": (lambda path: os.truncate(path, 0), "is no image"),
    "grown": (grow, "was truncated, or has grown"),
    "another file": (lambda path: path.write_bytes(bytes(9000)), "is no image"),
    "another version": (lambda path: flip(path, 7), "of another version of pasture"),
    "a byte of the header": (lambda path: flip(path, 30), "header is damaged"),
    "the last byte of the header": (lambda path: flip(path, 4095), "header is damaged"),
    "a byte of the manifest": (
        lambda path: flip(path, header(path).manifest_at + 300),
        "description makes no sense",
    ),
    "the last byte of the manifest": (
        lambda path: flip(path, header(path).manifest_at + header(path).manifest_bytes - 1),
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


def test_a_byte_of_the_pages_is_found_by_check(images: Images, copied: Path) -> None:
    done = images.pasture("show", "--check", str(copied))
    assert done.returncode == 0, done.stderr
    for at in (4096, header(copied).manifest_at - 1, header(copied).document_at + 5):
        flip(copied, at)
        done = images.pasture("show", "--check", str(copied))
        assert done.returncode == 17
        assert "is damaged" in done.stderr
        flip(copied, at)


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
        environ = {"PASTURE_IMAGE_VERBOSE": "1", "PASTURE_PYTHON": "/bin/true"}
        environ["PASTURE_IMAGE"] = str(path)
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


# -- what it was made of


@contextmanager
def put_back(*paths: Path) -> Iterator[None]:
    """Files and folders as they were, with their times, at the end of the block."""
    times = {path: path.stat() for path in (*paths, *{path.parent for path in paths})}
    contents = {path: path.read_bytes() for path in paths}
    yield
    for path, content in contents.items():
        path.unlink(missing_ok=True)
        path.write_bytes(content)
    for path, status in times.items():
        path.chmod(status.st_mode & 0o7777)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_library_of_the_same_size_and_time_is_known_by_its_content(images: Images) -> None:
    library = images.lib / "answer.so"
    with put_back(library):
        before = library.stat()
        compiled(library, 2)
        os.utime(library, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert library.stat().st_size == before.st_size
        assert f"a library has changed since the image was made: {library}" in images.why()
        assert images.run("-c", "import changing; print(changing.ANSWER())").out == b"2\n"
        library.unlink()
        assert "a library cannot be opened" in images.why()
    assert images.why() == ""  # the file has another inode by now


@pytest.mark.parametrize("name", ["json.py", "changing/__init__.py", "sitecustomize.py", "a.pth"])
def test_a_new_file_that_would_be_loaded_is_noticed(images: Images, name: str) -> None:
    new = images.lib / name
    with put_back(images.lib / "changing.py"):
        new.parent.mkdir(exist_ok=True)
        new.write_text("")
        why = images.why()
        new.unlink()
        if new.parent != images.lib:
            new.parent.rmdir()
    assert f"a file has changed since the image was made: {images.lib}" in why


def test_a_module_in_the_programs_folder_takes_its_place(images: Images, tmp_path: Path) -> None:
    (tmp_path / "changing.py").write_text("VALUE = 3\n")
    source = "import changing; print(changing.VALUE)"
    assert images.run("-c", source, cwd=tmp_path).out == b"3\n"
    assert images.why("-c", source, cwd=images.lib) == ""


# -- the machine


def with_fact(path: Path, index: int, change: Callable[[int, int], tuple[int, int]]) -> None:
    """The same image with another rule and value for a fact of the machine."""
    data = bytearray(path.read_bytes())
    head = header(path)
    body = memoryview(data)[head.manifest_at : head.manifest_at + head.manifest_bytes]
    (facts_at,) = struct.unpack_from("<Q", body, 8 * (HEAD_FIELDS - 7))
    at = facts_at + 16 * index
    struct.pack_into("<2Q", body, at, *change(*struct.unpack_from("<2Q", body, at)))
    struct.pack_into("<Q", body, 16, checksum(bytearray(body)))
    path.write_bytes(data)


def another(rule: int, value: int) -> tuple[int, int]:
    """A number that does not fit: another one, one with a bit more, a larger one."""
    return rule, {1: value ^ 1, 2: value | 1 << 63, 3: value + 1}[rule]


VDSO = 1
CLOCKS = """
import asyncio, os, signal, subprocess, threading, time
before = time.clock_gettime_ns(time.CLOCK_REALTIME)
assert 0 <= time.time_ns() - before < 10**10 and time.clock_getres(time.CLOCK_MONOTONIC) < 1
signal.signal(signal.SIGALRM, lambda *_: print("alarm", flush=True))
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.05)
asyncio.run(asyncio.sleep(0))
if not os.fork():
    os._exit(time.monotonic() < 0)
assert os.wait()[1] == 0 == subprocess.run(["true"]).returncode
thread = threading.Thread(target=lambda: print(time.monotonic() > 0))
thread.start(), thread.join()
print(sum("[vdso]" in line for line in open("/proc/self/maps")))
"""


def test_under_another_kernel_the_images_vdso_leads_to_the_running_one(
    images: Images, copied: Path
) -> None:
    with_fact(copied, VDSO, lambda rule, value: (rule, value + 1))
    assert images.why() == ""
    assert images.run("-c", CLOCKS) == Ended(0, b"alarm\nTrue\n1\n", b"")


def test_an_images_vdso_is_not_used_where_new_memory_can_hold_no_code(
    images: Images, copied: Path
) -> None:
    """As under MemoryDenyWriteExecute= of systemd."""
    with_fact(copied, VDSO, lambda rule, value: (rule, value + 1))
    words = [str(BOUNDARY), "no-new-code", str(STUB), "-c", "print(1)"]
    ended = images.run(*words, program=Path(sys.executable), environ={"PASTURE_IMAGE_VERBOSE": "1"})
    assert ended.out == b"1\n"
    assert b"the kernel allows no code in new memory" in ended.err


@pytest.mark.parametrize("index", [*range(VDSO), *range(VDSO + 1, 12)])
def test_an_image_of_another_machine_is_refused(images: Images, copied: Path, index: int) -> None:
    facts = host.facts(STUB)
    assert len(facts) == 12
    if not facts[index].rule or (facts[index].rule == 2 and facts[index].value >> 63):
        pytest.skip("it is not compared, or this processor has that feature")
    with_fact(copied, index, another)
    assert f"the image was made under another {facts[index].name}" in images.why()


def test_a_rule_for_a_fact_of_the_machine_is_obeyed(images: Images, copied: Path) -> None:
    index, fact = 4, host.facts(STUB)[4]  # registers that programs use: there is one at least
    for rule, value, is_met in (
        (0, fact.value + 1, True),
        (4, fact.value, False),
    ):
        with_fact(copied, index, lambda *_, given=(rule, value): given)
        assert (images.why() == "") is is_met, (rule, value)


def test_an_image_of_a_processor_with_fewer_features_is_used(images: Images, copied: Path) -> None:
    index = next(i for i, fact in enumerate(host.facts(STUB)) if fact.rule == 2)
    with_fact(copied, index, lambda rule, features: (rule, features & features - 1))
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


@pytest.mark.parametrize(
    ("words", "environ", "said"),
    [
        (("-q", "-c", "pass"), {}, "an option: -q"),
        (("-c", "pass"), {"PYTHONHASHSEED": "7"}, "PYTHONHASHSEED"),
        (("-c", "pass"), {"LOCPATH": "/elsewhere"}, "LOCPATH"),
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


def test_check_runs_no_program_that_an_image_names(images: Images, copied: Path) -> None:
    """It may be another user's, and its document may say anything."""
    other = copied.parent / "other"
    other.mkdir()
    (other / "pasture-python").write_text(f"#!/bin/sh\ntouch {other}/was-run\n")
    (other / "pasture-python").chmod(0o755)
    head, content = header(copied), bytearray(copied.read_bytes())
    document = json.loads(content[head.document_at :])
    document["python"] = str(other / "python")
    document["options"] = ["-c", f"open({str(other / 'was-run')!r}, 'w')"]
    data = json.dumps(document).encode()
    content[head.document_at :] = data
    fields = head._replace(
        checksum=0,
        file_bytes=len(content),
        document_bytes=len(data),
        sha256=hashlib.sha256(content[4096:]).digest(),
    )
    _HEADER.pack_into(content, 0, *fields)
    struct.pack_into("<Q", content, 16, checksum(content[:4096]))
    copied.write_bytes(content)
    done = images.pasture("show", "--check", str(copied))
    assert (done.returncode, (other / "was-run").exists()) == (0, False), done.stderr
    copied.chmod(0o666)
    for command in (("show", "--check"), ("install",)):
        done = images.pasture(*command, str(copied))
        assert (done.returncode, (other / "was-run").exists()) == (2, False), done.stderr
        assert "every user may write to it" in done.stderr
    copied.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(copied, 65534, 65534)
        for command in (("show", "--check"), ("install",)):
            done = images.pasture(*command, str(copied))
            assert (done.returncode, (other / "was-run").exists()) == (2, False), done.stderr
            assert "belongs to user 65534" in done.stderr


def test_the_image_of_a_folder_that_fits_is_used(images: Images, copied: Path) -> None:
    shutil.copy(copied, copied.parent / "older.img")
    os.utime(copied.parent / "older.img", (1, 1))
    copied.write_bytes(copied.read_bytes()[:5000])  # the last one that was written
    for name in (".new.img.part", ".new.img", "notes.txt", "img"):
        (copied.parent / name).write_bytes(b"")
    folder = {"PASTURE_IMAGE": f"{copied.parent}/"}
    assert images.why(environ=folder) == ""
    (copied.parent / "older.img").unlink()
    assert "truncated" in images.why(environ=folder)
    copied.rename(copied.parent / "copy")  # as a path that is cut off would end
    copied.symlink_to("copy")
    far = str(copied.parent).ljust(PATH_MAX - len("/copy") - 1, "/")
    assert "truncated" in images.why(environ={"PASTURE_IMAGE": far[:-4]})
    assert "the folder has no image" in images.why(environ={"PASTURE_IMAGE": far})
    copied.unlink()
    assert "the folder has no image" in images.why(environ=folder)


def test_a_program_that_does_not_end_well_is_said_with_its_status(own_images: Images) -> None:
    own_images.module("ends", "import atexit, os; atexit.register(os._exit, 3)")
    done = own_images.build("--preload", "ends")
    assert done.returncode != 0
    assert "no program starts out of the image: it ended with status 3" in done.stderr
