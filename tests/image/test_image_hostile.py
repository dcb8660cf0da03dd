"""Images whose description says what no builder writes, and starts at odd places."""

from __future__ import annotations

import itertools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from images import BIN, STUB, Images, compiled

from pasture_image.build.frozen import FACTS
from pasture_image.build.image_file import _HEADER, _Header
from pasture_image.build.manifest import HEAD_FIELDS, LAYOUT, checksum

pytestmark = [pytest.mark.once, pytest.mark.integration]

BOUNDARY = Path(__file__).parent.parent / "programs" / "behind_boundary.py"
OS_PAGE = 4096
TABLES = {"sources": 6, "regions": 5, "files": 5, "folders": 1, "names": 2}
NAMES = (
    *("magic", "bytes", "checksum", *FACTS, *LAYOUT),
    *("stack_end", "stack_limit_bytes", "stack_length", "stack_source", "stack_offset", "kernels"),
    *(f"kernel{n}{part}" for n in range(6) for part in ("", "_length")),
    *("vdso", "vdso_offset", "sources", "sources_at", "regions", "regions_at", "files", "files_at"),
    *("auxv_bytes", "auxv_at", "rules_at", "python_at", "options_at"),
    *("folders", "folders_at", "names", "names_at"),
    *(f"{name}{end}" for name in ("facts", "dated", "searched", "questions")
      for end in ("", "_at")),
)  # fmt: skip
PLACE = 0x100000000000
"""Where the stub looks first for room for its last steps (restore.c)."""
LARGEST = 1 << 28
"""Of a description (manifest.c)."""


class Description:
    """The numbers of an image's manifest, for a change of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = bytearray(path.read_bytes())
        self.header = _Header(*_HEADER.unpack_from(self.data))
        at = self.header.manifest_at
        self.body = self.data[at : at + self.header.manifest_bytes]

    def __getitem__(self, name: str) -> int:
        (found,) = struct.unpack_from("<Q", self.body, 8 * NAMES.index(name))
        return int(found)

    def __setitem__(self, name: str, value: int) -> None:
        struct.pack_into("<Q", self.body, 8 * NAMES.index(name), value)

    def rows(self, table: str) -> Iterator[int]:
        """Offsets of its rows."""
        width = 8 * TABLES[table]
        return iter(range(self[f"{table}_at"], self[f"{table}_at"] + width * self[table], width))

    def number(self, at: int) -> int:
        return int(struct.unpack_from("<Q", self.body, at)[0])

    def put(self, at: int, value: int) -> None:
        struct.pack_into("<Q", self.body, at, value)

    def writable(self) -> int:
        """The row of a region that can be written to."""
        return next(at for at in self.rows("regions") if self.body[at + 28] == 3)

    def of_library(self) -> int:
        """The row of a region that is a part of the first library."""
        at = [*self.rows("sources")].index(self.source(1))
        return next(row for row in self.rows("regions") if self.body[row + 24] == at)

    def source(self, kind: int) -> int:
        """The first row of that kind: 0 the image, 1 a library."""
        return next(at for at in self.rows("sources") if self.number(at) == kind)

    def write(self) -> None:
        """With all checksums made right."""
        at = self.header.manifest_at
        if self.body and len(self.body) % 8 == 0:
            self.put(16, checksum(self.body))
        self.data[at : at + len(self.body)] = self.body
        _HEADER.pack_into(self.data, 0, *self.header._replace(checksum=0))
        struct.pack_into("<Q", self.data, 16, checksum(self.data[:OS_PAGE]))
        self.path.write_bytes(self.data)


@pytest.fixture
def described(copied: Path) -> Description:
    """Of a copy of the image, which programs are started out of."""
    assert len(NAMES) == HEAD_FIELDS
    return Description(copied)


def on_the_stack(one: Description, end: int) -> None:
    one["stack_pointer"] += end - one["stack_end"]
    one["stack_end"] = end


def open_text(one: Description) -> None:
    one["python_at"] = one["bytes"]
    lengthen(one, b"a" * 8)


def half_a_word(one: Description) -> None:
    lengthen(one, b"1234")


def lengthen_questions(one: Description) -> None:
    one["questions"], one["questions_at"] = 1, one["bytes"]
    lengthen(one, struct.pack("<3Q", 99, 0, 0))


def lengthen(one: Description, more: bytes) -> None:
    one.body += more
    one["bytes"] += len(more)
    one.header = one.header._replace(manifest_bytes=len(one.body))


def change(name: str, found: Callable[[Description], int]) -> Callable[[Description], None]:
    return lambda one: one.__setitem__(name, found(one))


def row(found: Callable[[Description], tuple[int, int]]) -> Callable[[Description], None]:
    return lambda one: one.put(*found(one))


def end_of(one: Description, region: int) -> int:
    return one.number(region) + one.number(region + 8)


NONSENSE: dict[str, Callable[[Description], None]] = {
    "a text without an end": open_text,
    "a length that is no multiple of a word": half_a_word,
    "a thread's number across the end of a region": change(
        "tid_address", lambda one: end_of(one, one.writable()) - 1
    ),
    "a region where the kernel maps": row(lambda one: (one.writable(), one["kernel0"])),
    "a stack where the kernel maps": lambda one: on_the_stack(
        one, one["kernel0"] + one["kernel0_length"]
    ),
    "a stack in a library": change(
        "stack_source", lambda one: [*one.rows("sources")].index(one.source(1))
    ),
    "a part of a library behind its end": row(
        lambda one: (one.of_library() + 16, one.number(one.source(1) + 8) // OS_PAGE * OS_PAGE * 2)
    ),
    "a region in the stack": row(
        lambda one: (one.writable(), one["stack_end"] - one["stack_limit_bytes"])
    ),
    "a stack pointer that is no word's": change(
        "stack_pointer", lambda one: one["stack_pointer"] + 1
    ),
    "a question that no start knows": lengthen_questions,
    "a stack behind its source": change(
        "stack_offset", lambda one: one.number(one.source(0) + 8) - 8
    ),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_no_process_could_have_is_refused(
    images: Images, described: Description, name: str
) -> None:
    assert images.why() == ""
    NONSENSE[name](described)
    described.write()
    assert "description makes no sense" in images.why()
    assert images.run("-c", "print(1)").out == b"1\n"


def test_a_description_longer_than_any_is_not_read(images: Images, described: Description) -> None:
    end = described.header.manifest_at + LARGEST + 8
    described.header = described.header._replace(manifest_bytes=LARGEST + 8, file_bytes=end)
    described.write()
    os.truncate(described.path, end)
    assert "description makes no sense" in images.why()


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


def test_an_image_that_ends_before_its_last_page_is_refused(
    images: Images, described: Description
) -> None:
    at = described.source(0) + 8
    described.put(at, described.header.file_bytes + OS_PAGE)
    described.write()
    assert "a part of the image is missing" in images.why()


def test_what_cannot_be_read_where_the_description_says_is_refused(
    images: Images, described: Description
) -> None:
    vdso_offset = described["vdso_offset"]
    described["kernel0_length"] -= OS_PAGE
    described["vdso_offset"] = described.header.file_bytes
    described.write()
    assert "the image's vDSO cannot be read" in images.why()
    described["vdso_offset"] = OS_PAGE
    described.write()
    assert "is of an unknown form" in images.why()
    described["vdso_offset"] = vdso_offset
    described.write()
    assert images.why() == ""


def test_a_kernel_that_maps_other_sizes_is_another_kernel(
    images: Images, described: Description
) -> None:
    """Its vDSO is reached through the image's then."""
    described["kernel0_length"] -= OS_PAGE
    described.write()
    assert images.why() == ""
    source = "import time; print(time.time() > 1, time.monotonic() > 0)"
    assert images.run("-c", source).out == b"True True\n"
    described["vdso"] = described["kernels"]
    described.write()
    assert "maps something unknown" in images.why()


def test_the_last_steps_run_where_the_image_has_nothing(
    images: Images, described: Description
) -> None:
    described["kernels"] += 1  # one more than this kernel has
    last = described["kernels"] - 1
    described[f"kernel{last}"], described[f"kernel{last}_length"] = PLACE, OS_PAGE
    described.write()
    assert images.why() == ""
    assert images.run("-c", "import json; print(json.dumps([1]))").out == b"[1]\n"


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
    assert own_images.why("-c", source) == ""
    assert own_images.run("-c", source).out == b"%s b'kept'\n" % hex(PLACE).encode()


# -- files


def test_descriptors_of_the_caller_take_no_file_of_the_images_place(own_images: Images) -> None:
    log = own_images.folder / "app.log"
    own_images.module("logs", f"FILE = open({str(log)!r}, 'a')\n")
    own_images.built("--preload", "logs")
    source = "import logs, sys; print(sys.argv[1], file=logs.FILE)"
    taken = next(
        number
        for number in itertools.count(900)
        if "is taken" in own_images.why("-c", source, str(number), **inherited(number))
    )
    assert log.read_text() == "".join(f"{number}\n" for number in range(900, taken + 1))
    log.unlink()
    log.symlink_to("/dev/null")
    assert "cannot be opened that the image has open" in own_images.why("-c", source, "1")


def test_a_file_is_not_read_from_where_no_file_can_be(own_images: Images) -> None:
    log = own_images.folder / "app.log"
    own_images.module("logs", f"FILE = open({str(log)!r}, 'a')\n")
    own_images.built("--preload", "logs")
    described = Description(own_images.image)
    described.put(next(described.rows("files")) + 16, 1 << 62)  # its offset
    described.write()
    assert "cannot be opened that the image has open" in own_images.why("-c", "print(1)")


def inherited(number: int) -> dict[str, object]:
    """Has a program begin with that descriptor."""
    return {"preexec_fn": lambda: os.dup2(0, number), "close_fds": False}


def test_a_device_that_a_module_keeps_open_is_that_device(own_images: Images) -> None:
    opened = "ctypes.CDLL(None).open(b'/dev/zero', os.O_RDONLY | os.O_CLOEXEC)"  # unseen
    own_images.module("opens", f"import ctypes, os\nNUMBER = {opened}\n")
    own_images.built("--preload", "opens")
    source = "import opens, os; print(os.read(opens.NUMBER, 3))"
    assert own_images.why("-c", source) == ""
    assert own_images.run("-c", source).out == b"b'\\x00\\x00\\x00'\n"
    if os.geteuid() != 0:
        return
    script = 'mount --bind /dev/full /dev/zero && exec "$@"'
    said = {"PASTURE_IMAGE_VERBOSE": "1"}
    ended = own_images.in_mounts(script, STUB, "-c", source, environ=said)
    assert b"cannot be opened that the image has open" in ended.err, ended
    assert ended.out == b"b'\\x00\\x00\\x00'\n"


def test_what_a_module_has_read_of_an_open_file_is_behind_each_program(own_images: Images) -> None:
    data = own_images.folder / "data"
    data.write_text("found")
    opened = f"ctypes.CDLL(None).open({bytes(data)!r}, os.O_RDONLY | os.O_CLOEXEC)"
    own_images.module("opens", f"import ctypes, os\nNUMBER = {opened}\nos.read(NUMBER, 2)\n")
    own_images.built("--preload", "opens")
    source = "import opens, os; print(os.read(opens.NUMBER, 9))"
    assert own_images.why("-c", source) == ""
    assert own_images.run("-c", source).out == b"b'und'\n"


def test_a_copy_of_a_library_is_that_library_and_one_that_has_grown_or_is_gone_is_named(
    own_images: Images,
) -> None:
    library = own_images.lib / "answer.so"
    compiled(library, 1)
    alias = own_images.lib / "alias.so"
    alias.hardlink_to(library)
    reads = f"open({str(alias)!r}, 'rb').read()"
    own_images.module("loads", f"import ctypes\nctypes.CDLL({str(library)!r}), {reads}\n")
    own_images.built("--preload", "loads")
    assert own_images.why() == ""
    (own_images.lib / "new").write_text("another file")
    (own_images.lib / "new").replace(alias)
    assert f"a file has changed since the image was made: {alias}" in own_images.why()
    alias.unlink()
    alias.hardlink_to(library)
    shutil.copyfile(library, own_images.lib / "copy.so")
    (own_images.lib / "copy.so").rename(library)
    assert own_images.why() == ""
    with library.open("ab") as file:
        file.write(b"more")
    assert "a library has changed" in own_images.why()
    library.unlink()
    assert "a library cannot be opened" in own_images.why()
    library.mkdir()
    assert "a library has changed" in own_images.why()


# -- where the program is


def test_python_runs_where_no_image_can_know_its_program(images: Images) -> None:
    """Without /proc, by a descriptor: not even the interpreter is found then."""
    source = (
        "import os; os.execve(os.open(os.environ['STUB'], os.O_RDONLY), ['x', '-c', 'print(1)'], "
        "dict(os.environ))"
    )
    script = 'mount -t tmpfs none /proc && exec "$@"'
    words = (BIN / "python", "-c", source)
    ended = images.in_mounts(script, *words, environ={"STUB": str(STUB)})
    assert (ended.status, b"there is no python next to it" in ended.err) == (127, True), ended


def test_a_kernel_with_room_for_few_mappings_has_python_run(images: Images, tmp_path: Path) -> None:
    (tmp_path / "few").write_text("300\n")
    script = f'mount --bind {tmp_path}/few /proc/sys/vm/max_map_count && exec "$@"'
    said = {"PASTURE_IMAGE_VERBOSE": "1"}
    ended = images.in_mounts(script, STUB, "-c", "print(1)", environ=said)
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
        environ = {"PASTURE_IMAGE_VERBOSE": "1"}
        ended = images.run(*words, program=program, cwd=tmp_path, environ=environ)
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
        environ = {"PASTURE_IMAGE_VERBOSE": "1", "PASTURE_PYTHON": "/bin/true"}
        words = [str(BOUNDARY), "user", str(stub), "-c", "print(1)"]
        ended = images.run(*words, program=Path(sys.executable), environ=environ)
    assert (ended.status, b"has rights that its caller has not" in ended.err) == (0, True), ended


# -- what is compared


def test_an_image_for_an_option_and_a_variable_is_for_no_program_with_others(
    own_images: Images,
) -> None:
    own_images.built("--preload", "json", "--options", "-O", "--env", "OMP_NUM_THREADS=4")
    environ = {"OMP_NUM_THREADS": "4"}
    words = ("-O", "-c", "pass")
    assert "without the option: -O" in own_images.why(environ=environ)
    assert own_images.why(*words, environ=environ) == ""
    assert "OMP_NUM" in own_images.why(*words, environ=environ | {"OMP_NUM": "1"})


def test_a_folder_of_many_files_that_are_no_images_is_no_obstacle(
    images: Images, tmp_path: Path
) -> None:
    for number in range(70):
        (tmp_path / f"{number}.img").write_text("none")
    (tmp_path / "plain").touch()
    for name in ("a.img", "b.img"):
        shutil.copyfile(images.image, tmp_path / name)
        (tmp_path / name).chmod(0o600)
    folder = {"PASTURE_IMAGE": str(tmp_path)}
    assert "an option: -q" in images.why("-q", "-c", "pass", environ=folder)
    assert images.why(environ=folder) == ""
    for name in ("a.img", "b.img"):
        (tmp_path / name).unlink()
    for value, said in ((str(tmp_path), "the file is no image"), ("", "there is no image")):
        assert said in images.why(environ={"PASTURE_IMAGE": value})


@pytest.mark.parametrize(("name", "said"), [("none", "cannot be read"), ("", "cannot be read")])
def test_facts_of_what_cannot_be_read_are_an_error(tmp_path: Path, name: str, said: str) -> None:
    words = [STUB, "--pasture-facts", str(tmp_path / name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, said in done.stderr) == (1, True), done
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            words[:2], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, "No space left" in done.stderr) == (1, True), done
