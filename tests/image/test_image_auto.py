"""PASTURE_IMAGE=auto: the first start of a program has its image made, the next ones use it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from images import BIN, STUB, Ended, Images

from pasture.errors import ImageFailed
from pasture_image.build import making
from pasture_image.build.document import Remark
from pasture_image.inside.order import Order
from pasture_image.start import auto

pytestmark = pytest.mark.integration

TIMEOUT_S = 60
PROGRAM = """\
import json, decimal, its_own, os, sys
with open(sys.argv[1], "a") as file:
    file.write("ran\\n")
print("_pydecimal" in sys.modules or "decimal" in sys.modules, *sorted(os.environ), sys.argv[2:])
"""


class Automatic:
    """A cache of a test's own, and programs."""

    def __init__(self, images: Images) -> None:
        self.folder = images.folder
        self.images = self.folder / "cache" / "pasture" / "images"
        self.runs = self.folder / "runs"
        images.module("its_own", "import sys; sys.stdout.write('own ')\n")
        self.environ = {
            **images.environ,
            "PASTURE_IMAGE": "auto",
            "PASTURE_IMAGE_VERBOSE": "1",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    def program(self, name: str = "program.py", text: str = PROGRAM) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def run(self, path: Path, program: Path = STUB) -> Ended:
        """Its pipes end with it, so nothing that goes on in the background has them."""
        words = [program, path, self.runs, "a"]
        done = subprocess.run(words, env=self.environ, capture_output=True, check=False)
        return Ended(done.returncode, done.stdout, done.stderr)

    def wait(self, end: str = "img") -> Path:
        """For the image, or for why there is none; nothing is made then."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            found = [*self.images.glob(f"*.{end}")]
            if found and not self.builders():
                return found[0]
            time.sleep(0.1)
        raise AssertionError([path.name for path in self.images.iterdir()])

    def builders(self) -> list[int]:
        """Processes that make an image of this cache."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            is_auto = b"pasture_image.start.auto" in words
            if is_auto and os.fsencode(self.images) in b" ".join(words):
                found.append(int(path.parent.name))
        return found


@pytest.fixture
def automatic(own_images: Images) -> Automatic:
    return Automatic(own_images)


@pytest.mark.interpreter
def test_the_first_start_has_an_image_made_and_the_next_one_uses_it(automatic: Automatic) -> None:
    program = automatic.program("9.Tag_mit-é_und_mehr_als_32_Zeichen.py")
    by_python = automatic.run(program, BIN / "python")
    running = [
        subprocess.Popen(
            [STUB, program, automatic.runs, "a"],
            env=automatic.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    said = b""
    for process in running:
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, out) == (0, by_python.out)
        said += err
    assert said.count(b"one is made in the background") == 1
    assert said.count(b"is being made") == 2
    assert automatic.wait().name.startswith("9.Tag_mit---_und_mehr_als_32_Ze-")
    assert automatic.wait().stat().st_mode & 0o777 == 0o600
    assert automatic.images.stat().st_mode & 0o777 == 0o700
    started = automatic.run(program)
    assert (started.status, started.out) == (0, by_python.out)
    assert b"started from the image" in started.err
    assert automatic.runs.read_text() == "ran\n" * 5, "the program runs for its users alone"


def started(automatic: Automatic, *words: str) -> Ended:
    done = subprocess.run([STUB, *words], env=automatic.environ, capture_output=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.once
def test_commands_that_import_the_same_share_an_image(automatic: Automatic) -> None:
    first = (
        "import json,decimal as d, its_own\nfrom os.path import join\nimport json\n"
        "important = 1\nimport reprlib, re"
    )
    same = (
        "# again\nimport json\nimport decimal, its_own as o\nfrom\tos.path import sep\nprint(2)\n"
        "import reprlib\nimport re, re"
    )
    another = "import json\nprint(3)"
    assert b"one is made in the background" in started(automatic, "-c", first).err
    image = automatic.wait()
    assert image.name.startswith("c-")
    again = started(automatic, "-c", same)
    assert (again.out, b"started from the image" in again.err) == (b"own 2\n", True)
    assert b"there is no image yet" in started(automatic, "-c", another).err
    assert b"started from the image" not in started(automatic, "-c", "print(4)").err


@pytest.mark.once
def test_a_command_of_many_imports_is_run(automatic: Automatic) -> None:
    many = "".join(f" import module_{number}\n" for number in range(2000))
    text = "'''\nimport \nfrom . x\n'''"
    ended = started(automatic, "-S", "-c", f"{text}\nif 0:\n{many}print(1)")
    assert (ended.out, NO_START_FILES in ended.err) == (b"1\n", True)
    assert b"a program without a name" in started(automatic, "-c", "").err


NO_START_FILES = b"none is made without start files"
NO_FOLDER = b"there is no cache folder of this user alone"


@pytest.mark.once
@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"XDG_CACHE_HOME": "", "HOME": "{}"}, NO_START_FILES),
        ({"XDG_CACHE_HOME": "relative", "HOME": "{}"}, NO_START_FILES),
        ({"XDG_CACHE_HOME": "", "HOME": "relative"}, NO_FOLDER),
        ({"XDG_CACHE_HOME": "{}/none/none"}, NO_FOLDER),
        ({"XDG_CACHE_HOME": "{}/open"}, NO_FOLDER),
        ({"XDG_CACHE_HOME": "{}/file"}, NO_FOLDER),
        ({"XDG_CACHE_HOME": "{}/" + "x" * 4000}, NO_FOLDER),
        ({"XDG_CACHE_HOME": "", "HOME": ""}, NO_FOLDER),
        ({"XDG_CACHE_HOME": None, "HOME": None}, NO_FOLDER),
        *([({"XDG_CACHE_HOME": "{}/foreign"}, NO_FOLDER)] if os.geteuid() == 0 else []),
    ],
)
def test_images_lie_in_a_cache_folder_of_the_user_alone(
    automatic: Automatic, variables: dict[str, str | None], why: bytes
) -> None:
    (automatic.folder / "file").write_text("")
    (automatic.folder / "open").mkdir()
    (automatic.folder / "open").chmod(0o777)
    (automatic.folder / "foreign").mkdir()
    if os.geteuid() == 0:
        os.chown(automatic.folder / "foreign", 1234, 1234)
    for name, value in variables.items():
        del automatic.environ[name]
        if value is not None:
            automatic.environ[name] = value.format(automatic.folder)
    ended = started(automatic, "-S", "-c", "import json; print(1)")
    assert (ended.status, ended.out) == (0, b"1\n")
    assert why in ended.err
    used = automatic.folder / ".cache/pasture/images"
    assert used.exists() == (why == NO_START_FILES)


@pytest.mark.once
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-Z"], b"an option that the interpreter itself answers"),
        (["-W"], b"an option without its argument"),
        (["-" + "O" * 300, "-c", "print(__debug__)"], b"too many options"),
        (["--help-xoptions"], b"a long option"),
        ([""], b"a file without a name"),
        (["none.py"], b"the program is no plain file"),
        (["/"], b"the program is no plain file"),
        (["-"], b"no image is made for a program without a name"),
    ],
)
def test_a_command_line_that_starts_no_program_is_the_interpreters(
    automatic: Automatic, words: list[str], why: bytes
) -> None:
    ended = started(automatic, *words)
    environ = automatic.environ | {"PASTURE_IMAGE": "0"}
    python = subprocess.run([BIN / "python", *words], env=environ, capture_output=True, check=False)
    assert (ended.status, ended.out) == (python.returncode, python.stdout)
    assert why in ended.err


@pytest.mark.once
def test_a_module_has_an_image_by_its_name(automatic: Automatic) -> None:
    automatic.folder.joinpath("lib", "other_name.py").write_text(
        "import json\nprint(json.__name__)"
    )
    started(automatic, "-m", "other_name")
    assert automatic.wait().name.startswith("other_name-")
    again = started(automatic, "-m", "other_name")
    assert (again.out, b"started from the image" in again.err) == (b"json\n", True)


@pytest.mark.once
def test_options_are_those_of_the_image_and_of_its_name(automatic: Automatic) -> None:
    words = ("-O", "-Werror", "-c", "import json, sys; print(__debug__, sys.warnoptions)")
    assert b"one is made in the background" in started(automatic, *words).err
    image = automatic.wait()
    again = started(automatic, *words)
    assert (again.out, b"started from the image" in again.err) == (b"False ['error']\n", True)
    assert b"one is made in the background" in started(automatic, *words[1:]).err
    assert automatic.wait() and image.exists()


WAITING = """\
import glob, json, os, sys, time
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print(os.getpid(), "has no child")
end = time.monotonic() + 60
while not glob.glob(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.1)
"""


@pytest.mark.once
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_first_process_of_a_container_sees_no_child_that_makes_its_image(
    automatic: Automatic,
) -> None:
    program = automatic.program("waiting.py", WAITING)
    words = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        STUB,
        program,
        automatic.images / "*.img",
    ]
    done = subprocess.run(words, env=automatic.environ, capture_output=True, check=False)
    assert done.stdout == b"1 has no child\n", done.stderr
    assert b"one is made in the background" in done.stderr
    assert [*automatic.images.glob("*.img")]


@pytest.mark.once
def test_an_image_that_does_not_fit_any_more_is_made_again(automatic: Automatic) -> None:
    program = automatic.program()
    automatic.run(program)
    image = automatic.wait()
    whole = image.stat()
    os.truncate(image, whole.st_size - 4096)
    again = automatic.run(program)
    assert b"truncated" in again.err and b"one is made in the background" in again.err
    deadline = time.monotonic() + TIMEOUT_S
    while image.stat().st_ino == whole.st_ino and time.monotonic() < deadline:
        time.sleep(0.1)
    assert b"started from the image" in automatic.run(program).err


@pytest.mark.once
def test_an_image_that_is_not_for_a_program_is_kept_and_dated_by_its_use(
    automatic: Automatic,
) -> None:
    program = automatic.program(".hidden.py")
    automatic.run(program)
    image = automatic.wait()
    assert image.name.startswith("-hidden.py-")
    os.utime(image, (1, 1))
    assert b"started from the image" in automatic.run(program).err
    used = image.stat()
    assert used.st_mtime > 1
    automatic.environ["LOCPATH"] = "/"
    ended = automatic.run(program)
    assert b"a variable that matters at the start: LOCPATH" in ended.err
    assert (b"one is made" in ended.err, automatic.builders()) == (False, [])
    assert image.stat().st_mtime == used.st_mtime


@pytest.mark.once
def test_what_could_not_be_made_is_not_tried_at_each_start(
    automatic: Automatic, own_images: Images
) -> None:
    program = automatic.program(text="import its_own\n")
    assert b"one is made" in automatic.run(program).err
    why = automatic.wait("failed")
    assert "nothing that can be kept" in why.read_text()
    again = automatic.run(program)
    assert b"no image could be made for this program" in again.err
    assert (again.out, automatic.builders()) == (b"own ", [])
    shown = own_images.pasture("show", environ=automatic.environ)
    assert "nothing that can be kept" in shown.stdout
    os.utime(why, (1, 1))
    assert b"one is made" in automatic.run(program).err
    automatic.wait("failed")


@pytest.mark.once
def test_an_image_of_modules_that_read_the_arguments_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    def build(path: Path, order: Order) -> SimpleNamespace:
        built.append(order.preload)
        path.touch()
        reads = "click" in order.preload
        return SimpleNamespace(notes=[Remark("arguments", "click", "it reads")] * reads)

    monkeypatch.setattr(making, "build", build)
    monkeypatch.setattr(auto, "_wait_for_others", lambda _: None)
    monkeypatch.setattr(auto, "_loadable", lambda *_: ("json", "click"))
    program = auto.Program(1, "f", "/a", ())
    auto._make(tmp_path / "a.img", program, [])
    assert built == [("json", "click"), ("json",)]
    monkeypatch.setattr(auto, "_loadable", lambda *_: ("click",))
    with pytest.raises(ImageFailed, match="it reads"):
        auto._make(tmp_path / "b.img", program, [])
    assert [path.name for path in tmp_path.iterdir()] == ["a.img"]


@pytest.mark.once
def test_a_builder_that_was_killed_is_no_obstacle(automatic: Automatic) -> None:
    program = automatic.program()
    automatic.run(program)
    deadline = time.monotonic() + TIMEOUT_S
    while not (builders := automatic.builders()) and time.monotonic() < deadline:
        time.sleep(0.01)  # between its fork and its exec it looks like the program
    assert builders
    for builder in [os.pidfd_open(pid) for pid in builders]:
        signal.pidfd_send_signal(builder, signal.SIGKILL)
        select.select([builder], [], [])  # its lock has gone by then, and its command line before
        os.close(builder)
    assert b"one is made" in automatic.run(program).err
    automatic.wait()


@pytest.mark.once
def test_no_child_and_no_other_interpreter_learns_of_the_first_start(automatic: Automatic) -> None:
    """The variable is for one start; without start files nothing would take it back."""
    names = "[name for name in os.environ if 'SEEN' in name], len(os.listdir('/proc/self/fd'))"
    text = (
        f"import os, subprocess, sys\nprint({names}, flush=True)\nsubprocess.run([sys.executable, "
    )
    program = automatic.program(text=f'{text}"-c", "import os; print({names})"])\n')
    first = automatic.run(program)
    assert b"one is made" in first.err
    if sys.version_info >= (3, 13):
        assert first.out == automatic.run(program, BIN / "python").out
    words = [STUB, "-S", program]
    done = subprocess.run(words, env=automatic.environ, capture_output=True, check=True)
    assert b"none is made without start files" in done.stderr
    automatic.wait()


@pytest.mark.once
def test_a_server_of_pasture_run_has_an_image_made(automatic: Automatic) -> None:
    words = [BIN / "python", "-m", "pasture", "run", "--image", "auto", "--", "python"]
    environ = {**automatic.environ, "PASTURE_IMAGE": ""}
    program = automatic.program(text="import json, sys; print('its_own' in sys.modules)\n")
    for said in (b"one is made in the background", b"started from the image"):
        done = subprocess.run([*words, program], env=environ, capture_output=True, check=True)
        assert said in done.stderr, done.stderr
        assert done.stdout == b"False\n"
        automatic.wait()


@pytest.mark.once
def test_a_folder_that_others_write_to_is_not_used(automatic: Automatic) -> None:
    automatic.images.parent.mkdir(parents=True)
    automatic.images.parent.chmod(0o777)
    ended = automatic.run(automatic.program())
    assert b"there is no cache folder of this user alone" in ended.err
    assert ended.status == 0 and not automatic.images.exists()
    automatic.images.parent.chmod(0o700)
    automatic.images.symlink_to(automatic.folder)
    assert b"there is no cache folder" in automatic.run(automatic.program()).err


@pytest.mark.once
def test_names_of_modules_are_read_as_far_as_they_were_written() -> None:
    area = b"json\njson.decoder\njson\nno name\n../x\nhalf" + bytes(10)
    assert auto.read_names(area) == ["json", "json.decoder"]
    assert auto.read_names(bytes(10)) == []


@pytest.mark.once
def test_only_installed_modules_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_a_project.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert auto.is_installed("json.decoder") and auto.is_installed("click.core")
    assert not auto.is_installed("of_a_project")
    assert not auto.is_installed("there_is_none")
    assert not auto.is_installed("tests.image")


@pytest.mark.once
def test_images_that_were_not_used_for_longest_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "MAX_IMAGES", 3)
    monkeypatch.setattr(auto, "MAX_BYTES", 100_000)
    for number in range(5):
        path = tmp_path / f"a{number}.img"
        path.write_bytes(b"x" * 10_000)
        os.utime(path, (1000 + number, 1000 + number))
        path.with_name(f"{path.name}.lock").touch()
        os.utime(path.with_name(f"{path.name}.lock"), (1, 1))
    running, gone = (tmp_path / f".a.img.{pid}-0a1b.part" for pid in (os.getpid(), 1 << 30))
    running.touch()
    gone.touch()
    auto.prune(tmp_path)
    assert [*tmp_path.glob(".*.part")] == [running]
    assert sorted(path.name for path in tmp_path.glob("*.img")) == ["a2.img", "a3.img", "a4.img"]
    assert len([*tmp_path.glob("*.lock")]) == 3
    (tmp_path / "large.img").write_bytes(b"x" * 200_000)
    auto.prune(tmp_path)
    assert [path.name for path in tmp_path.glob("*.img")] == ["large.img"]
