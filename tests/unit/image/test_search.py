"""Folders in which an image's modules are looked for: what counts in them, and since when."""

from __future__ import annotations

from pathlib import Path

import pytest

from pasture_image.build.search import SearchFolder, changed_since
from pasture_image.inside.times import changed_ns, file_times


@pytest.mark.parametrize(
    ("entry", "counts"),
    [
        ("app.py", True),
        ("app.cpython-314-x86_64-linux-gnu.so", True),
        ("app.pyc", True),
        ("app.log", False),
        ("app", False),
        ("app.py~", False),
        (".app.py.swp", False),
        ("other.py", False),
        ("extra.pth", False),
    ],
)
def test_only_what_could_be_imported_under_a_loaded_name_counts(
    tmp_path: Path, entry: str, counts: bool
) -> None:
    (tmp_path / entry).write_text("")
    assert SearchFolder(str(tmp_path), {"app"}).found() == ({entry} if counts else set())


def test_a_folder_counts_once_it_is_a_package(tmp_path: Path) -> None:
    init = tmp_path / "app" / "__init__.py"
    init.parent.mkdir()
    folder = SearchFolder(str(tmp_path), {"app"})
    assert (folder.found(), str(init) in folder.inits()) == (set(), True)
    init.write_text("")
    assert SearchFolder(str(tmp_path), {"app"}).found() == {"app/"}


def test_what_came_or_was_changed_since_a_moment_is_found(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("read", "changed", "app.py", "other.py")]
    for file in files:
        file.write_text("old")
    read = [file_times(str(file)) for file in files[:2]]
    folders = {str(tmp_path): ("app",)}
    since_ns = max(file.stat().st_ctime_ns for file in files) + 1
    assert changed_since(since_ns, read, folders) == set()
    while changed_ns(str(files[1])) < since_ns:
        files[1].write_text("new")
    for name in ("app.py", "other.py"):
        (tmp_path / "fresh").write_text("new")
        (tmp_path / "fresh").replace(tmp_path / name)
    assert changed_since(since_ns, read, folders) == {str(files[1]), str(files[2])}
