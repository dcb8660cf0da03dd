"""A program never gets yesterday's code, whatever way it was exchanged; nothing else counts."""

from __future__ import annotations

import mmap
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from images import Images

pytestmark = [pytest.mark.once, pytest.mark.integration]

PROGRAM = "import changing; print(changing.VALUE)"


def release(folder: Path, value: int) -> Path:
    """A folder with a module; all have the same size, and no two the same time."""
    folder.mkdir(parents=True)
    path = folder / "changing.py"
    path.write_text(f"VALUE = {value}\n")
    os.utime(path, (1_700_000_000 + value,) * 2)
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
    lib = folder / "modules"
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
    path = release(folder / "modules", 1)

    def write() -> None:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:] = b"VALUE = 2\n"
            mapped.flush()

    return path.parent, write


def writing_by_another_name(folder: Path) -> tuple[Path, Callable[[], None]]:
    path = release(folder / "modules", 1)
    other = folder / "other.py"

    def write() -> None:
        other.hardlink_to(path)
        other.write_text("VALUE = 2\n")

    return path.parent, write


def a_package_before_a_module(folder: Path) -> tuple[Path, Callable[[], None]]:
    lib = release(folder / "modules", 1).parent
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
    own_images: Images, tmp_path: Path, way: Callable[[Path], tuple[Path, Callable[[], None]]]
) -> None:
    folder, change = way(tmp_path)
    own_images.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    own_images.built("--preload", "changing")
    assert own_images.why("-c", PROGRAM) == ""
    assert own_images.run("-c", PROGRAM).out == b"1\n"
    change()
    assert own_images.python("-c", PROGRAM).out == b"2\n"
    assert own_images.run("-c", PROGRAM).out == b"2\n"
    own_images.built("--preload", "changing")
    assert own_images.why("-c", PROGRAM) == ""
    assert own_images.run("-c", PROGRAM).out == b"2\n"


def test_what_modules_do_not_depend_on_may_change_beside_them(
    own_images: Images, tmp_path: Path
) -> None:
    lib = own_images.lib
    (lib / "app.py").write_text("VALUE = 1\n")
    (lib / "site").mkdir()
    own_images.environ["PYTHONPATH"] = str(lib)
    own_images.built("--preload", "app,json")
    for turn in range(20):
        with (lib / "app.log").open("a") as log:
            log.write("a line\n")
        for name in ("site.db", "site.db-journal", "json.tmp", "app.pid", "__pycache__/x.pyc"):
            path = lib / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(str(turn))
            path.unlink()
        (lib / "app.py").chmod(0o640 + turn % 2)
        assert own_images.why("-c", "import app") == ""


def test_a_file_that_changes_while_it_is_loaded_is_loaded_again(
    own_images: Images, tmp_path: Path
) -> None:
    """Half of it may be old: here the module is changed between its own import and the image."""
    lib = own_images.lib
    (lib / "changing.py").write_text("VALUE = 1\n")
    (lib / "slow.py").write_text(
        "import changing, pathlib\n"
        "path = pathlib.Path(changing.__file__)\n"
        "if changing.VALUE == 1: path.write_text('VALUE = 2\\n')\n"
    )
    own_images.environ |= {"PYTHONPATH": str(lib), "PYTHONDONTWRITEBYTECODE": "1"}
    own_images.built("--preload", "slow")
    source = f"import slow; {PROGRAM}"
    assert own_images.why("-c", source) == ""
    assert own_images.run("-c", source).out == b"2\n"
