"""What of a record of lookups counts, and how."""

from __future__ import annotations

import os
import stat
from errno import ENOENT
from pathlib import Path

import pytest

from pasture_image.build.lookups import Found, found
from pasture_image.inside.recording import COUNTED, LISTED, LISTS, OWN, STARTED, WARMED
from pasture_image.inside.written import left

EMPTY = "/nowhere/a/b/empty"
LOAD = ("stat", OWN), ("stat", COUNTED)


def record(*calls: tuple[str, str | Path] | tuple[str, str | Path, int]) -> bytes:
    """As src/stub/record.c writes it."""
    lines = []
    for call, path, *flags in calls:
        name = os.fsencode(path)
        try:
            status = os.stat(path)  # noqa: PTH116
            numbers = (status.st_size, status.st_ctime_ns, status.st_ino, status.st_dev)
            known = f"0\t{status.st_mode:x}\t" + "\t".join(map(str, numbers))
        except OSError:
            known = f"{ENOENT}\t0\t0\t0\t0\t0"
        flag = flags[0] if flags else 0
        lines.append(f"7\t{call}\t{flag:x}\t{known}\t0\t".encode() + name + b"\0")
    return b"".join(lines)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    here = tmp_path.resolve()
    (here / "folder").mkdir()
    (here / "file").write_text("1")
    (here / "link").symlink_to("folder")
    return here


def of(data: bytes) -> Found:
    return found(data, (), EMPTY, ())


def test_what_was_not_there_is_covered_by_the_deepest_folder_above_it(here: Path) -> None:
    seen = of(record(("stat", here / "link/a/b"), ("open", here / "folder/c"), ("stat", here)))
    folder = f"{here}/folder"
    assert seen.missing == {folder: {f"{folder}/a/b", f"{folder}/c"}}
    assert seen.links == {f"{here}/link": "folder"}
    assert seen.folders == {str(here)}


def test_what_changes_meanwhile_is_noticed(here: Path) -> None:
    data = record(("open", here / "file"), ("stat", here / "new"))
    (here / "new").write_text("")
    (here / "file").write_text("22")
    assert of(data).changed == {f"{here}/file", f"{here}/new"}
    assert not of(record(("open", here / "file"))).changed


def test_what_the_load_has_written_does_not_count(here: Path) -> None:
    data = record(
        ("stat", here / "new"), ("open", here / "new", os.O_WRONLY | os.O_CREAT),
        ("open", here / "file"), ("open", here / "file", os.O_RDWR), ("write", here / "folder/x"),
        ("stat", here / "folder/x"), ("open", here / "folder/__pycache__/x.pyc"),
    )  # fmt: skip
    (here / "new").write_text("")
    (here / "file").write_text("22")
    seen = of(data)
    assert (seen.files, seen.changed) == ({}, set())
    assert seen.missing == {f"{here}/folder": {f"{here}/folder/x"}}


def test_what_another_load_finds_is_a_reason_to_load_again(here: Path) -> None:
    new, old = here / "new", here / "old"
    old.write_text("")
    placed = (("place", one) for one in (new, here / "folder", old))
    first = record(*LOAD, *placed, ("write", here / "a"), ("stat", OWN))
    new.mkdir()
    old.unlink()
    (here / "a").write_text("")
    each, once = left(first + record(("stat", new), ("place", new), ("stat", here)))
    assert (each, {*once}) == ([f"{here}/a"], {str(new), str(old)})
    assert str(new) in left(first)[0]


def test_what_would_be_written_if_it_were_not_there_is_there(here: Path) -> None:
    seen = of(record(*LOAD, ("place", here / "folder"), ("write", here / "no/log")))
    assert seen.questions == {(12, f"{here}/folder"): stat.S_IFDIR}
    assert seen.missing == {str(here): {f"{here}/no/log"}}


def test_a_folder_that_the_load_makes_and_removes_does_not_count(here: Path) -> None:
    calls = ("write", here / "log"), ("list", here / "log"), ("list", here / "folder")
    assert of(record(*calls)).listed == {f"{here}/folder": 0}
    (here / "log").mkdir()
    assert of(record(*calls)).listed.keys() == {f"{here}/folder", f"{here}/log"}


def test_the_builders_own_and_listings_for_imports_do_not_count(here: Path) -> None:
    listing = ("list", here)
    data = record(
        ("stat", STARTED), ("stat", OWN), ("stat", here / "a"), ("stat", COUNTED),
        ("stat", LISTS), listing, ("stat", LISTED),
    )  # fmt: skip
    assert (of(data).missing, of(data).listed) == ({}, {})
    assert of(data + record(listing)).listed == {str(here): 0}
    assert found(record(listing), [str(here)], EMPTY, ()).listed == {}


def test_what_the_kernel_keeps_from_the_recorder_is_no_record() -> None:
    assert of(record(*LOAD, ("blind", ""))).is_blind
    assert of(record(*LOAD, ("confine", ""))).is_confined
    assert not of(record(("confine", ""), *LOAD, ("stat", OWN), ("blind", ""))).is_confined


def test_terminals_that_modules_asked_for_are_noted() -> None:
    asked = ("terminal", "", 0), *LOAD, ("terminal", "", 2), ("open", "/dev/tty"), ("stat", OWN)
    seen = of(record(*asked, ("terminal", "", 1)))
    assert seen.terminals() == ["standard error", "/dev/tty"]
    assert (seen.changed, seen.missing) == (set(), {})


def test_what_is_looked_for_in_the_working_directory_is_the_programs() -> None:
    above = ("stat", "/nowhere/a/b/.env"), ("stat", "/nowhere/.env"), ("stat", "/nowhere/.git")
    seen = of(record(*LOAD, ("stat", f"{EMPTY}/.env"), ("stat", f"{EMPTY}/conf"), *above))
    assert seen.missing == {".": {"./.env", "./conf", "^/.env"}, "/": {"/nowhere/.git"}}
    for call in (("list", EMPTY), ("write", f"{EMPTY}/log")):
        assert {note.code for note in of(record(*LOAD, call)).refused} == {"folder"}


def test_what_modules_ask_is_a_question_or_is_refused() -> None:
    seen = of(record(*LOAD, ("limit", "", 7), ("user", ""), ("network", ""), ("memory", "")))
    assert seen.questions.keys() == {(3, 7), (4, 0)}
    assert {note.code for note in seen.refused} == {"network", "memory"}
    module = ("open", "/lib/multiprocessing/__pycache__/util.pyc")
    once = of(record(*LOAD, module, ("limit", "", 7)))
    twice = of(record(*LOAD, module, ("limit", "", 7), ("limit", "", 7)))
    assert (once.questions, {*twice.questions}) == ({}, {(3, 7)})
    warmed = of(record(*LOAD, ("stat", WARMED), ("network", "")))
    assert (warmed.questions, warmed.refused) == ({}, set())
