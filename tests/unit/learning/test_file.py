"""The file of `--auto`: what a line may be, and what becomes of the rest."""

import stat
from pathlib import Path

import pytest

from pasture.errors import UsageError
from pasture.learning import file

ENTRIES = {
    "module pandas": file.OK,
    "module mysite.feeds": "makes a connection (socket.connect)",
    "module aaa": file.NEW,
    "template django django mail/receipt.txt": file.OK,
    'pattern 2 "\\\\d+\\t"': file.NEW,
    "code mysite.views:page.<locals>.<lambda>": file.NEW,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "site.auto"


def test_what_is_written_is_read_again_in_the_same_order(path: Path) -> None:
    file.write(path, ENTRIES)
    assert file.read(path) == ENTRIES
    assert list(file.read(path)) == list(ENTRIES)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "line",
    [
        "request GET /invite/7f3a9c1d22/",
        "GET /",
        "cache mysite.rates:table",
        "connection tcp 5432",
        "header Cookie: session=alice",
        "module two words",
        "module __main__",
        "code mysite.views:alice@example.org",
        "code mysite.views:page with spaces",
        "pattern 0 alice",
        "template django django mail/\x07",
        "module " + "a" * 2000,
    ],
)
def test_a_line_of_any_other_kind_is_left_out(path: Path, line: str) -> None:
    assert not file.is_entry(line)
    path.write_text(f"{file.FIRST}\n{line}\nok {line}\nmodule json\n")
    path.chmod(0o600)
    assert file.read(path) == {"module json": file.NEW}


def test_a_line_that_was_not_written_to_its_end_does_not_count(path: Path) -> None:
    file.write(path, {"module json": file.OK})
    with path.open("a") as stream:
        stream.write("module pand")
    assert file.read(path) == {"module json": file.OK}


def test_an_outcome_counts_where_a_line_is_there_twice(path: Path) -> None:
    path.write_text(
        f"{file.FIRST}\nmodule json\nrefused module json\traises OSError\nmodule json\n"
    )
    path.chmod(0o600)
    assert file.read(path) == {"module json": "raises OSError"}


def test_lines_are_appended_that_no_other_process_has_appended(path: Path) -> None:
    size = file.write(path, {"module json": file.OK})
    for lines in (["module csv", "code csv:reader"], ["module csv", "module html", "nothing"]):
        file.append(path, lines, size)
    assert path.read_text().splitlines()[3:] == ["module csv", "code csv:reader", "module html"]
    assert file.to_build(file.read(path), file.NEW) == ["module csv", "module html"]


def test_nothing_is_appended_where_there_is_no_file_or_a_link(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file.append(path, ["module csv"], 0)
    path.symlink_to(path.parent / "elsewhere")
    (path.parent / "elsewhere").write_text("")
    with pytest.raises(OSError, match="symbolic"):
        file.append(path, ["module csv"], 0)


def test_what_may_be_built_is_no_code(path: Path) -> None:
    assert file.to_build(ENTRIES, file.OK) == [
        "module pandas",
        "template django django mail/receipt.txt",
    ]
    assert file.values_of(ENTRIES, "code") == ["mysite.views:page.<locals>.<lambda>"]


@pytest.mark.parametrize("content", ["# pasture auto 9\nmodule json\n", "module json\n"])
def test_a_file_of_another_kind_is_refused(path: Path, content: str) -> None:
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(UsageError, match=r"cannot use .*site\.auto"):
        file.read(path)


def test_there_are_no_entries_where_there_is_no_file_or_an_empty_one(path: Path) -> None:
    assert file.read(path) == {}
    path.touch(mode=0o600)
    assert file.read(path) == {}


def test_a_file_that_another_user_may_write_is_refused(path: Path) -> None:
    file.write(path, ENTRIES)
    path.chmod(0o666)
    with pytest.raises(UsageError, match="may write to it"):
        file.read(path)
