"""What a collection looked at is noted, and a change of it is seen."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_pasture.inputs import Changes, Inputs, Snapshot

pytestmark = pytest.mark.once


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("read", "rewritten", "test_one.py"):
        (tmp_path / name).write_text("1")
        os.utime(tmp_path / name, (1, 1))  # long before this process
    (tmp_path / "listed").mkdir()
    return tmp_path


def seen_by(look: Callable[[], object], *more: Path) -> Snapshot:
    seen = Inputs()
    seen.start()
    look()
    return seen.snapshot(more, (".yaml",))


def of(folder: Path, changes: Changes) -> tuple[list[str], list[str]]:
    """Of this folder: other tests run in this process, too."""
    files, folders = (
        [path.removeprefix(f"{folder}/") for path in paths if path.startswith(str(folder))]
        for paths in (changes.files, changes.folders)
    )
    return files, folders


def test_files_that_were_read_count_by_time_size_and_inode(folder: Path) -> None:
    snapshot = seen_by((folder / "read").read_text, folder / "test_one.py")
    assert of(folder, snapshot.changes()) == ([], [])
    (folder / "read").write_text("2")
    assert of(folder, snapshot.changes()) == (["read"], [])
    other = folder / "other"
    other.write_text("1")
    os.utime(other, (1, 1))
    other.rename(folder / "read")
    (folder / "test_one.py").unlink()
    assert sorted(of(folder, snapshot.changes())[0]) == ["read", "test_one.py"]


def test_a_file_that_was_written_since_the_start_counts_as_changed(folder: Path) -> None:
    (folder / "read").write_text("written while tests are collected")
    snapshot = seen_by((folder / "read").read_text)
    assert of(folder, snapshot.changes()) == (["read"], [])


def test_what_the_collection_wrote_and_caches_do_not_count(folder: Path) -> None:
    def look() -> None:
        (folder / "made").write_text("1")
        (folder / "made").read_text()
        (folder / ".pytest_cache").mkdir()
        (folder / ".pytest_cache" / "v").write_text("1")
        (folder / ".pytest_cache" / "v").read_text()
        Path("/proc/self/stat").read_text()

    snapshot = seen_by(look)
    (folder / "made").write_text("22")
    (folder / ".pytest_cache" / "v").write_text("22")
    assert of(folder, snapshot.changes()) == ([], [])
    assert not any(path.startswith("/proc") for path in snapshot.files)


def test_names_in_a_folder_that_a_test_listed_all_count(folder: Path) -> None:
    snapshot = seen_by(lambda: list((folder / "listed").iterdir()))
    assert str(folder / "listed") in snapshot.listed
    (folder / "listed" / ".hidden").write_text("")
    assert of(folder, snapshot.changes()) == ([], [])
    (folder / "listed" / "data.txt").write_text("")
    assert of(folder, snapshot.changes()) == ([], ["listed"])


def test_in_other_folders_only_what_could_be_collected_or_imported_counts(folder: Path) -> None:
    noted = seen_by(lambda: list((folder / "listed").iterdir()))
    snapshot = Snapshot(noted.files, noted.folders, frozenset(), noted.suffixes)
    for name in ("report.json", "junit.xml"):
        (folder / "listed" / name).write_text("")
    assert of(folder, snapshot.changes()) == ([], [])
    for name in ("test_new.py", "test_new.yaml"):
        (folder / "listed" / name).write_text("")
        assert of(folder, snapshot.changes()) == ([], ["listed"])
        (folder / "listed" / name).unlink()
    (folder / "listed" / "package").mkdir()
    assert of(folder, snapshot.changes()) == ([], ["listed"])
    (folder / "listed" / "package").rmdir()
    assert of(folder, snapshot.changes()) == ([], [])


def test_paths_of_conftests_and_names_of_modules_count_where_there_was_nothing(
    folder: Path,
) -> None:
    def look() -> None:
        with pytest.raises(ImportError):
            __import__("never_there_at_all")

    seen = Inputs()
    seen.start()
    list((folder / "listed").iterdir())
    look()
    snapshot = seen.snapshot((), (), [folder / "conftest.py", folder / "read"])
    (folder / "conftest.py").touch()
    (folder / "listed" / "other.py").touch()
    assert of(folder, snapshot.changes()) == (["conftest.py"], ["listed"])
    assert snapshot.new_module(f"{folder}/listed") is None
    (folder / "listed" / "never_there_at_all.py").touch()
    assert snapshot.new_module(f"{folder}/listed") == f"{folder}/listed/never_there_at_all.py"


def test_modules_that_are_imported_count_however_they_came(folder: Path) -> None:
    assert pytest.__file__ in seen_by(lambda: None).files
