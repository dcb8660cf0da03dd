"""A program never gets yesterday's code, whatever way it was exchanged; nothing else counts."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from zygotes import TIMEOUT_S, Zygotes

pytestmark = [pytest.mark.once, pytest.mark.integration]

PROGRAM = "import changing; print(changing.VALUE)"


def release(folder: Path, value: int) -> Path:
    """A folder with a module; all have the same size and time."""
    folder.mkdir(parents=True)
    path = folder / "changing.py"
    path.write_text(f"VALUE = {value}\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def archive(path: Path, value: int) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("changing.py", f"VALUE = {value}\n")


def flip(link: Path, to: Path) -> None:
    new = link.with_name("new")
    new.symlink_to(to)
    new.replace(link)


def a_flipped_link(folder: Path) -> tuple[Path, Callable[[], None]]:
    for value in (1, 2):
        release(folder / "releases" / str(value), value)
    link = folder / "current"
    link.symlink_to(folder / "releases" / "1")
    return link, lambda: flip(link, folder / "releases" / "2")


def a_flipped_link_above(folder: Path) -> tuple[Path, Callable[[], None]]:
    for value in (1, 2):
        release(folder / "releases" / str(value) / "lib", value)
    link = folder / "current"
    link.symlink_to("releases/1")
    return link / "lib", lambda: flip(link, Path("releases/2"))


def a_flipped_link_to_a_file(folder: Path) -> tuple[Path, Callable[[], None]]:
    paths = [release(folder / str(value), value) for value in (1, 2)]
    lib = folder / "lib"
    lib.mkdir()
    (lib / "changing.py").symlink_to(paths[0])
    return lib, lambda: flip(lib / "changing.py", paths[1])


def a_renamed_folder_above(folder: Path) -> tuple[Path, Callable[[], None]]:
    for value in (1, 2):
        release(folder / str(value) / "app" / "lib", value)

    def rename() -> None:
        (folder / "1").rename(folder / "old")
        (folder / "2").rename(folder / "1")

    return folder / "1" / "app" / "lib", rename


def a_rewritten_archive(folder: Path) -> tuple[Path, Callable[[], None]]:
    path = folder / "lib.zip"
    archive(path, 1)
    return path, lambda: archive(path, 2)


def another_archive_in_its_place(folder: Path) -> tuple[Path, Callable[[], None]]:
    path, other = folder / "lib.zip", folder / "new.zip"
    archive(path, 1)
    archive(other, 2)
    return path, lambda: other.replace(path) and None


def writing_through_a_mapping(folder: Path) -> tuple[Path, Callable[[], None]]:
    path = release(folder / "lib", 1)

    def write() -> None:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:] = b"VALUE = 2\n"
            mapped.flush()
        time.sleep(0.3)  # all files are compared four times a second at most

    return path.parent, write


def writing_by_another_name(folder: Path) -> tuple[Path, Callable[[], None]]:
    path = release(folder / "lib", 1)
    other = folder / "other.py"

    def write() -> None:
        other.hardlink_to(path)
        other.write_text("VALUE = 2\n")
        time.sleep(0.3)

    return path.parent, write


def a_package_before_a_module(folder: Path) -> tuple[Path, Callable[[], None]]:
    lib = release(folder / "lib", 1).parent
    (lib / "changing").mkdir()
    (lib / "changing" / "notes.txt").write_text("no package so far")

    return lib, lambda: (lib / "changing" / "__init__.py").write_text("VALUE = 2\n") and None


WAYS = (
    *(a_flipped_link, a_flipped_link_above, a_flipped_link_to_a_file, a_renamed_folder_above),
    *(a_rewritten_archive, another_archive_in_its_place, writing_through_a_mapping),
    *(writing_by_another_name, a_package_before_a_module),
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_program_gets_the_code_that_is_there(
    own_zygotes: Zygotes, tmp_path: Path, way: Callable[[Path], tuple[Path, Callable[[], None]]]
) -> None:
    folder, change = way(tmp_path)
    own_zygotes.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    own_zygotes.pasture("start", "--preload", "changing", "--name", "x")
    assert "served by the zygote: x" in own_zygotes.why("-c", PROGRAM)
    assert own_zygotes.run("-c", PROGRAM).out == b"1\n"
    change()
    assert own_zygotes.python("-c", PROGRAM).out == b"2\n"
    assert own_zygotes.run("-c", PROGRAM).out == b"2\n"
    own_zygotes.wait_until_served(PROGRAM, "x")
    assert own_zygotes.run("-c", PROGRAM).out == b"2\n"


def test_what_modules_do_not_depend_on_may_change_beside_them(
    own_zygotes: Zygotes, tmp_path: Path
) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "app.py").write_text("VALUE = 1\n")
    (lib / "site").mkdir()
    own_zygotes.environ["PYTHONPATH"] = str(lib)
    own_zygotes.pasture("start", "--preload", "app,json", "--name", "x")
    for turn in range(20):
        with (lib / "app.log").open("a") as log:
            log.write("a line\n")
        for name in ("site.db", "site.db-journal", "json.tmp", "app.pid", "__pycache__/x.pyc"):
            path = lib / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(str(turn))
            path.unlink()
        (lib / "app.py").chmod(0o640 + turn % 2)
        assert "served by the zygote: x" in own_zygotes.why("-c", "import app")
    assert own_zygotes.status()["x"]["made"] == 1


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Path]:
    """A library in C that a module loads."""
    source = tmp_path / "lib" / "answer.c"
    source.parent.mkdir()
    source.write_text("int answer(void) { return 1; }\n")
    path = source.with_suffix(".so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source], check=True)
    (source.parent / "changing.py").write_text(
        f"import ctypes\nVALUE = ctypes.CDLL({str(path)!r}).answer()\n"
    )
    yield path


def test_a_replaced_library_in_c_is_noticed_and_counted(
    own_zygotes: Zygotes, library: Path
) -> None:
    own_zygotes.environ["PYTHONPATH"] = str(library.parent)
    own_zygotes.pasture("start", "--preload", "changing", "--name", "x")
    assert "served by the zygote: x" in own_zygotes.why("-c", PROGRAM)
    served = own_zygotes.status()["x"]["served"]
    source = library.with_suffix(".c")
    source.write_text("int answer(void) { return 2; }\n")
    new = library.with_suffix(".new")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", new, source], check=True)
    new.replace(library)
    assert own_zygotes.run("-c", PROGRAM).out == b"2\n"
    assert own_zygotes.status()["x"]["served"] == served
    own_zygotes.wait_until_served(PROGRAM, "x")
    assert own_zygotes.run("-c", PROGRAM).out == b"2\n"
    found = own_zygotes.status()["x"]
    assert (found["made"], found["state"]) == (2, "ready")


def test_a_program_that_the_interpreter_runs_is_not_counted_as_served(
    own_zygotes: Zygotes,
) -> None:
    own_zygotes.pasture("start", "--preload", "json", "--name", "x")
    environ = {**own_zygotes.environ, "PASTURE_ZYGOTE": "x"}
    assert own_zygotes.run("-c", "pass", env=environ).status == 0
    assert own_zygotes.run("-c", "pass", env={**environ, "PYTHONHASHSEED": "7"}).status == 0
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := own_zygotes.status()["x"])["refused"] or not found["served"]:
        assert time.monotonic() < deadline, found  # the stubs' own words come beside the programs
    assert found["served"] == 1
    assert found["refused"] == {"a variable that matters at the start: PYTHONHASHSEED": 1}
    assert own_zygotes.run("-u", "-c", "pass").status == 0
    said = own_zygotes.pasture("status").stdout
    assert "x: left to python 1 time: a variable that matters at the start: PYTHONHASHSEED" in said
    assert "no zygote: left to python 1 time: no zygote for these options: -u" in said


def test_a_zygote_recovers_from_an_installation_under_traffic(
    own_zygotes: Zygotes, tmp_path: Path
) -> None:
    package = tmp_path / "lib" / "installed"
    package.mkdir(parents=True)
    for name, value in (
        ("__init__", "from installed.part import VALUE\n"),
        ("part", "VALUE = 1\n"),
    ):
        (package / f"{name}.py").write_text(value)
    own_zygotes.environ["PYTHONPATH"] = str(package.parent)
    own_zygotes.pasture("start", "--preload", "installed", "--name", "x")
    source = "import installed; print(installed.VALUE)"
    (package / "part.py").unlink()
    end = time.monotonic() + TIMEOUT_S
    while own_zygotes.status()["x"]["state"] != "failed":
        assert own_zygotes.run("-c", source).status == 1  # as the interpreter itself
        assert time.monotonic() < end
    # Of another size: in the same second Python would take what it has compiled of the first.
    (package / "part.py").write_text("VALUE = 20\n")
    assert own_zygotes.run("-c", source).out == b"20\n"
    own_zygotes.wait_until_served(source, "x")
    assert own_zygotes.run("-c", source).out == b"20\n"


def test_a_file_that_changes_while_it_is_loaded_is_loaded_again(
    own_zygotes: Zygotes, tmp_path: Path
) -> None:
    """Half of it may be old: here the module is changed between its own import and the image."""
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "changing.py").write_text("VALUE = 1\n")
    (lib / "slow.py").write_text(
        "import changing, pathlib\n"
        "path = pathlib.Path(changing.__file__)\n"
        "if changing.VALUE == 1: path.write_text('VALUE = 2\\n')\n"
    )
    own_zygotes.environ |= {"PYTHONPATH": str(lib), "PYTHONDONTWRITEBYTECODE": "1"}
    own_zygotes.pasture("start", "--preload", "slow", "--name", "x")
    source = f"import slow; {PROGRAM}"
    own_zygotes.wait_until_served(source, "x")
    assert own_zygotes.run("-c", source).out == b"2\n"
