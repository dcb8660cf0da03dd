"""Images whose description says what no builder writes, and starts at odd places."""

from __future__ import annotations

import itertools
import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from images import BIN, OS_PAGE, SAID, STUB, Description, Images, compiled
from running import completed

from pasture_image.build import host
from pasture_image.build.manifest import content_sum

pytestmark = [pytest.mark.once, pytest.mark.integration]

BOUNDARY = Path(__file__).parent.parent / "programs" / "behind_boundary.py"
PLACE = 0x100000000000
"""Where the stub looks first for room for its last steps (restore.c)."""
LARGEST = 1 << 28
"""Of a description (manifest.c)."""


NONSENSE: dict[str, Callable[[Description], dict[str | int, int]]] = {
    "a text without an end": lambda one: {"python_at": one["bytes"]},
    "a length that is no multiple of a word": lambda one: {},
    "a thread's number across the end of a region": lambda one: {
        "tid_address": one[one.writable()] + one[one.writable() + 8] - 1
    },
    "a region where the kernel maps": lambda one: {one.writable(): one["kernel0"]},
    "a stack where the kernel maps": lambda one: {
        "stack_end": (end := one["kernel0"] + one["kernel0_length"]),
        "stack_pointer": one["stack_pointer"] + end - one["stack_end"],
    },
    "a stack in a library": lambda one: {"stack_source": one.rows("sources").index(one.source(1))},
    "a part of a library behind its end": lambda one: {
        one.of_library() + 16: one[one.source(1) + 8] // OS_PAGE * OS_PAGE * 2
    },
    "a region in the stack": lambda one: {
        one.writable(): one["stack_end"] - one["stack_limit_bytes"]
    },
    "a stack pointer that is no word's": lambda one: {"stack_pointer": one["stack_pointer"] + 1},
    "a question that no start knows": lambda one: {"questions": 1, "questions_at": one["bytes"]},
    "a stack behind its source": lambda one: {"stack_offset": one[one.source(0) + 8] - 8},
    "a page behind the end": lambda one: {one.source(0) + 8: one.header.file_bytes + OS_PAGE},
    "a shorter part of the kernel's": lambda one: {
        "kernel0_length": one["kernel0_length"] - OS_PAGE
    },
    "a part of the kernel's less": lambda one: {"kernels": one["kernels"] - 1},
}
OTHERWISE = {
    "a page behind the end": "a part of the image is missing",
    "a shorter part of the kernel's": "the image was made under another kernel",
    "a part of the kernel's less": "the image was made under another kernel",
}
APPENDED = {
    "a text without an end": b"a" * 8,
    "a length that is no multiple of a word": b"1234",
    "a question that no start knows": struct.pack("<3Q", 99, 0, 0),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_no_process_could_have_is_refused(
    images: Images, described: Description, name: str
) -> None:
    assert images.why() == ""
    for where, value in NONSENSE[name](described).items():
        described[where] = value
    described.lengthen(APPENDED.get(name, b""))
    described.write()
    assert OTHERWISE.get(name, "description makes no sense") in images.why()
    assert images.run("-c", "print(1)").out == b"1\n"


def test_a_header_that_leads_out_of_the_file_is_refused(
    images: Images, described: Description
) -> None:
    header = described.header
    for one in (
        header._replace(manifest_at=header.manifest_at + 8),
        header._replace(manifest_at=(header.file_bytes // OS_PAGE + 1) * OS_PAGE),
        header._replace(manifest_bytes=header.file_bytes),
    ):
        described.header = one
        described.body = bytearray()  # what lies there is not changed
        described.write()
        assert "header makes no sense" in images.why()
    described.header = header._replace(header_bytes=2 * OS_PAGE)
    described.write()
    assert "under another page size" in images.why()
    end = header.manifest_at + LARGEST + 8  # a description that is longer than any
    described.header = header._replace(manifest_bytes=LARGEST + 8, file_bytes=end)
    described.write()
    os.truncate(described.path, end)
    assert "description makes no sense" in images.why()


def test_memory_of_a_module_may_be_where_the_last_steps_would_run(own_images: Images) -> None:
    own_images.module(
        "maps",
        "import ctypes\nmmap = ctypes.CDLL(None).mmap\nmmap.restype = ctypes.c_void_p\n"
        f"place, length = ctypes.c_size_t({PLACE}), ctypes.c_size_t(4096)\n"
        "AT = mmap(place, length, 3, 0x100022, -1, ctypes.c_size_t(0))\n"
        "ctypes.memmove(AT, b'kept', 4)\n",
    )
    own_images.built("--preload", "maps")
    source = "import ctypes, maps; print(hex(maps.AT), ctypes.string_at(maps.AT))"
    assert own_images.served("-c", source).out == b"%s b'kept'\n" % hex(PLACE).encode()


# -- files


OPENS = """
import ctypes, os
LOG = open({log!r}, "a")
NUMBER = ctypes.CDLL(None).open({data!r}, os.O_RDONLY | os.O_CLOEXEC)  # unseen
os.read(NUMBER, 2)
"""


def test_files_that_a_module_keeps_open_are_open_in_each_program(own_images: Images) -> None:
    log, data = own_images.folder / "app.log", own_images.folder / "data"
    data.write_text("found")
    own_images.module("opens", OPENS.format(log=str(log), data=bytes(data)))
    own_images.built("--preload", "opens")
    reads = "import fcntl, opens, os; n = opens.NUMBER; "
    reads += "print(os.read(n, 9), fcntl.fcntl(n, fcntl.F_GETFL) & os.O_NONBLOCK)"
    assert own_images.served("-c", reads).out == b"b'und' 0\n"
    source = "import opens, sys; print(sys.argv[1], file=opens.LOG)"
    for taken in itertools.count(900):  # descriptors that the program begins with
        begins = partial(os.dup2, 0, taken)
        why = own_images.why("-c", source, f"{taken}", preexec_fn=begins, close_fds=False)
        if "is taken" in why:
            break
    assert log.read_text() == "".join(f"{number}\n" for number in range(900, taken + 1))
    shutil.copy2(own_images.image, own_images.folder / "older.img")
    described = Description(own_images.image)
    described[described.rows("files")[-1] + 16] = 1 << 62  # its offset
    described.write()
    assert "cannot be opened that the image has open" in own_images.why("-c", "print(1)")
    assert own_images.why(environ={"PASTURE_IMAGE": f"{own_images.folder}/"}) == ""
    data.unlink()
    os.mkfifo(data)  # which is not waited for
    shutil.copy2(own_images.folder / "older.img", own_images.image)
    assert f"a file has changed since the image was made: {data}" in own_images.why()


def test_a_library_is_known_by_its_content(own_images: Images) -> None:
    library, copy = own_images.lib / "answer.so", own_images.lib / "copy.so"
    compiled(library, 1)
    alias = own_images.lib / "alias.so"
    alias.hardlink_to(library)
    loads = f"ANSWER = ctypes.CDLL({str(library)!r}).answer; open({str(alias)!r}, 'rb').read()"
    own_images.module("loads", f"import ctypes\n{loads}\n")
    own_images.built("--preload", "loads")
    assert own_images.why() == ""
    (own_images.lib / "new").write_text("another file")
    (own_images.lib / "new").replace(alias)
    assert f"a file has changed since the image was made: {alias}" in own_images.why()
    alias.unlink()
    alias.hardlink_to(library)
    shutil.copyfile(library, copy)
    copy.rename(library)
    assert own_images.why() == ""
    before = library.stat()
    compiled(copy, 2)
    copy.rename(library)
    os.utime(library, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert library.stat().st_size == before.st_size
    assert f"a library has changed since the image was made: {library}" in own_images.why()
    assert own_images.run("-c", "import loads; print(loads.ANSWER())").out == b"2\n"
    with library.open("ab") as file:
        file.write(b"more")
    assert "a library has changed" in own_images.why()
    library.unlink()
    assert "a library cannot be opened" in own_images.why()
    library.mkdir()
    assert "a library has changed" in own_images.why()


# -- where the program is


def test_a_kernel_with_room_for_few_mappings_has_python_run(images: Images, tmp_path: Path) -> None:
    (tmp_path / "few").write_text("300\n")
    script = f'mount --bind {tmp_path}/few /proc/sys/vm/max_map_count && exec "$@"'
    ended = images.in_mounts(script, STUB, "-c", "print(1)", environ=SAID)
    assert (ended.out, b"more mappings than vm.max_map_count" in ended.err) == (b"1\n", True), ended


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root")
def test_in_a_folder_that_may_not_be_listed_python_and_image_find_nothing(
    images: Images, tmp_path: Path
) -> None:
    (tmp_path / "json.py").write_text("dumps = str")
    source = "import json; print(json.dumps(None))"
    program = Path(shutil.which("setpriv") or "")
    words = ("--bounding-set", "-dac_override,-dac_read_search", str(STUB), "-c", source)
    for mode, out in ((0o300, b"null\n"), (0o700, b"None\n")):
        tmp_path.chmod(mode)
        ended = images.run(*words, program=program, cwd=tmp_path, environ=SAID)
        assert ended.out == out, ended
        assert (b": started from the image: " in ended.err) == (mode == 0o300), ended
        plain = (*words[:2], str(BIN / "python"), *words[3:])
        assert images.run(*plain, program=program, cwd=tmp_path).out == out


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_program_with_more_rights_than_its_caller_is_the_interpreters(
    images: Images, tmp_path: Path
) -> None:
    """It opens no image that its caller names."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        stub = Path(folder) / "pasture-python"
        shutil.copyfile(STUB, stub)
        stub.chmod(0o4755)
        environ = {**SAID, "PASTURE_PYTHON": "/bin/true"}
        words = [str(BOUNDARY), "user", str(stub), "-c", "print(1)"]
        ended = images.run(*words, program=Path(sys.executable), environ=environ)
    assert (ended.status, b"has rights that its caller has not" in ended.err) == (0, True), ended


def test_sums_are_of_files_of_any_name_and_what_cannot_be_read_has_none(tmp_path: Path) -> None:
    odd = tmp_path / "odd\nname"
    odd.write_bytes(b"content")
    paths = [str(path) for path in (tmp_path / "none", odd, tmp_path)]
    assert host.sums(STUB, paths) == {str(odd): content_sum(b"content")}
    with Path("/dev/full").open("w") as full:
        done = completed([STUB, "--pasture-facts"], capture_output=False, stdout=full, stderr=-1)
    assert (done.returncode, "No space left" in done.stderr) == (1, True), done
