"""A program never gets yesterday's code, whatever way it was exchanged; nothing else counts."""

from __future__ import annotations

import mmap
import os
import subprocess
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import changes
import pytest
from changes import Table, flip
from images import Images

from pasture_image.inside import notes

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


def an_edit_of_the_same_size_and_time(folder: Path) -> tuple[Path, Callable[[], None]]:
    path = release(folder / "modules", 1)

    def edit() -> None:
        before = path.stat()
        path.write_text("VALUE = 2\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    return path.parent, edit


WAYS = (
    *(a_flipped_link, a_flipped_link_above, a_renamed_folder_above, writing_through_a_mapping),
    *(a_rewritten_archive, another_archive_in_its_place, an_edit_of_the_same_size_and_time),
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


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Table]:
    @cache
    def table(name: str) -> Table:
        folder = tmp_path_factory.mktemp(name)
        folder.chmod(0o755)
        folder.parent.chmod(0o755)
        words = [f"--allow={kind}" for kind in sorted(notes.REFUSED)] if name == "REFUSED" else []
        return Table(getattr(changes, name), folder, *words)

    return table


ROWS = [(name, row) for name in ("FILES", "STARTS", "WALKS") for row in getattr(changes, name)]


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_what_has_changed_since_the_build_is_what_python_finds(
    tables: Callable[[str], Table], name: str, row: str
) -> None:
    how = getattr(changes, name)[row][1]
    prefix = how.get("prefix", ()) if isinstance(how, dict) else ()
    if prefix and (os.geteuid() or subprocess.call([*prefix[: prefix.index("sh")], "true"]
                   if "sh" in prefix else [*prefix[:2], "true"])):  # fmt: skip
        pytest.skip("needs root, or a program that is not here")
    before, after, image, why = tables(name).compared(row)
    assert image == after != before, why.decode()


@pytest.mark.parametrize("row", changes.SAME)
def test_what_makes_no_difference_leaves_the_image_of_use(
    tables: Callable[[str], Table], row: str
) -> None:
    table = tables("FILES")
    changes.SAME[row](table.here)
    try:
        assert table.images.why("-c", "pass", cwd="/") == ""
    finally:
        table.undo()


@pytest.mark.parametrize("row", changes.REFUSED)
def test_what_no_start_can_compare_is_named_and_allowed_by_that_name(
    tables: Callable[[str], Table], row: str
) -> None:
    table, kind = tables("REFUSED"), changes.REFUSED[row][0]
    module = f"m{[*changes.REFUSED].index(row)}"
    found = [one for one in table.images.document()["notes"] if one["code"] == kind]
    others = ("kernel", "state") if row != "the folder of a program" else (kind,)
    assert [one for one in found if kind in others or module in one["subject"]], found


@pytest.mark.parametrize("kind", sorted(notes.REFUSED))
def test_without_that_name_there_is_no_image(own_images: Images, kind: str) -> None:
    code = next(code for known, code in changes.REFUSED.values() if known == kind)
    own_images.module("asks", f"import os\n{code}\n")
    done = own_images.build("--preload", "asks")
    assert (done.returncode != 0, f"--allow {kind}" in done.stderr) == (True, True), done.stderr


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
