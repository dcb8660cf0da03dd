"""The profile's file: what it takes, what it refuses, and how two become one."""

import os
from pathlib import Path

import pytest

from pasture.cli import main
from pasture.errors import UsageError
from pasture.profile import file
from pasture.profile.file import Profile, parse, profile_of, read, write

pytestmark = pytest.mark.once

FIRST = "# pasture profile 1\n"

ENTRIES = {
    "module": ("pandas", "meadow.tasks", "json.tool"),
    "cache": ("meadow.rates:table", "meadow.rates:Rates.of(...)"),
    "pattern": ('0 "\\\\d+\\n"',),
    "template": ("django default mail/receipt.txt", "jinja app:env base page.html"),
    "request": ("GET /shop/?page=2", "GET http://example.org/"),
    "failed": ("GET /tiles/?url=",),
    "connection": ("tcp 5432", "unix /run/redis.sock"),
}


def text_of(*lines: str) -> str:
    return FIRST + "".join(f"{line}\n" for line in lines)


def test_all_kinds_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "site.profile"
    write(path, profile_of(ENTRIES))
    found = read(path)
    assert {kind: set(found.of(kind)) for kind in file.KINDS} == {
        kind: set(values) for kind, values in ENTRIES.items()
    }
    assert found.problems == ()
    assert found.text == path.read_text()


def test_modules_stand_as_they_were_imported_and_all_else_is_sorted() -> None:
    profile = profile_of({"module": ["b", "a"], "cache": ["b:f", "a:f"]})
    assert profile.of("module") == ("b", "a")
    assert profile.of("cache") == ("a:f", "b:f")


def test_modules_of_another_profile_come_where_they_stand_there() -> None:
    ours, theirs = profile_of({"module": "abc"}), profile_of({"module": "xbyc"})
    assert (ours + theirs).of("module") == ("a", "x", "b", "y", "c")
    assert (ours + ours) == ours
    assert (ours + profile_of({"module": "xy"})).of("module") == ("a", "b", "c", "x", "y")
    assert (Profile() + ours).of("module") == ours.of("module")


def test_a_merge_by_lines_alone_is_read_with_its_marks_reported() -> None:
    profile = parse(text_of("module b", "<<<<<<< ours", "module a", "=======", "module b"))
    assert profile.of("module") == ("b", "a")
    assert len(profile.problems) == 2


@pytest.mark.parametrize(
    "line",
    [
        "module __main__",
        "module __main__.views",
        "module ..views",
        "module .views",
        "module ../../tmp/evil",
        "module os;import evil",
        "module " + "a" * 3000,
        "cache builtins:exec('x')",
        "cache __main__:f",
        "pattern 0 'x'",
        "pattern 0 5",
        'pattern 99999999 "x"',
        "template mako x y",
        "request POST /",
        "request GET /\x1b[2J",
        "request GET http://user:secret@example.org/",
        "connection postgres://user:secret@host/",
        "run rm -rf /",
        "module",
    ],
)
def test_a_line_that_is_no_entry_is_reported_and_left_out(line: str) -> None:
    profile = parse(text_of(line, "module json"))
    assert profile.of("module") == ("json",)
    assert len(profile) == 1
    assert len(profile.problems) == 1
    assert profile.problems[0].isprintable()


def test_of_many_such_lines_only_some_are_shown() -> None:
    problems = parse(text_of(*["nonsense"] * 1000)).problems
    assert len(problems) < 30
    assert problems[-1] == "980 more lines are no entries"


def test_a_kind_has_room_for_so_many() -> None:
    most = file.KINDS["request"].most
    assert len(profile_of({"request": [f"GET /{n}" for n in range(most + 5)]})) == most


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no profile"),
        (b"module os\n", "no profile"),
        (b"# pasture profile 2\n", "version 2"),
        (FIRST.encode() + b"module \xff\n", "no text"),
        (FIRST.encode() + b"#" * file.MAX_BYTES, "more than"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "site.profile"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=why) as error:
        read(path)
    assert error.value.hint


def test_a_file_that_others_may_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "site.profile"
    write(path, profile_of(ENTRIES))
    path.chmod(0o666)
    with pytest.raises(UsageError, match="every user may write"):
        read(path)
    monkeypatch.setattr("pasture.trust.private_files._own_groups", frozenset)
    path.chmod(0o664)
    with pytest.raises(UsageError, match="group .* may write"):
        read(path)


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "site.profile"
    write(path, profile_of(ENTRIES))
    monkeypatch.setattr("pasture.trust.foreign_files.trusted_users", lambda: frozenset((4711,)))
    with pytest.raises(UsageError, match="belongs to user"):
        read(path)


def test_a_link_to_a_file_is_followed_and_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    path, link, fifo = tmp_path / "site.profile", tmp_path / "link", tmp_path / "fifo"
    write(path, profile_of(ENTRIES))
    link.symlink_to(path)
    assert read(link) == read(path)
    os.mkfifo(fifo)
    with pytest.raises(UsageError, match="no plain file"):
        read(fifo)
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "missing")


def test_the_command_makes_one_profile_of_several(tmp_path: Path) -> None:
    ours, theirs, result = (tmp_path / name for name in ("a", "b", "c"))
    write(ours, profile_of({"module": "ab"}))
    theirs.write_text(text_of("module b", "nonsense"))
    assert main.run(["profile", "merge", str(ours), str(theirs), "-o", str(result)]) == 0
    assert read(result) == read(ours)


@pytest.mark.parametrize(
    "arguments",
    [
        ["profile", "merge", "missing", "-o", "c"],
        ["learn"],
        ["learn", "-o", "missing/site.profile", "gunicorn", "app"],
        ["learn", "-o", "site.profile"],
        ["learn", "--report", "missing"],
        ["run", "--profile", "missing", "gunicorn", "app"],
    ],
)
def test_commands_that_make_no_sense_end_with_a_hint(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(arguments) == 2
    assert "hint: " in capfd.readouterr().err
