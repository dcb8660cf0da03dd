"""The files in which workers count, and what is read out of them."""

import gc
import os
from pathlib import Path

import pytest

from pasture.metrics import board, recorder
from pasture.metrics.board import Board, Counts, read_all, read_board

MASTER = 4_194_999  # above the largest pid of Linux
ENDED = MASTER + 1


def test_what_is_counted_is_read(tmp_path: Path) -> None:
    mine = Board(tmp_path, MASTER, os.getpid())
    mine.words[board.RECYCLES] += 2
    mine.words[board.COLLECTIONS + 1] += 3
    mine.words[board.PAUSES] += 4
    mine.words[board.PAUSE_NS] += 5
    living, total = read_all(tmp_path, MASTER, (os.getpid(),))
    assert living[os.getpid()] == total
    assert (total.starts, total.recycles, total.pause_ns) == (1, 2, 5)
    assert total.collections == (0, 3, 0)
    assert total.pauses[0] == 4 and sum(total.pauses) == 4


def test_what_ended_workers_counted_stays_in_the_sum_and_their_files_go(tmp_path: Path) -> None:
    for offset in range(3):
        Board(tmp_path, MASTER, ENDED + offset).words[board.RECYCLES] += 1
    for _ in range(2):
        living, total = read_all(tmp_path, MASTER, ())
        assert living == {}
        assert (total.starts, total.recycles) == (3, 3)
    assert sorted(path.name for path in tmp_path.glob("*.board")) == [f"{MASTER}.ended.board"]


def test_servers_that_share_a_folder_are_kept_apart(tmp_path: Path) -> None:
    Board(tmp_path, MASTER, ENDED)
    assert read_all(tmp_path, MASTER + 7, ())[1] == Counts()


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"\0" * 4096])
def test_a_file_of_something_else_is_not_counted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"{MASTER}.{ENDED}.board"
    path.write_bytes(content)
    assert read_board(path) is None
    assert read_all(tmp_path, MASTER, ())[1] == Counts()


def test_no_file_is_no_count(tmp_path: Path) -> None:
    assert read_board(tmp_path / "none.board") is None


def test_collections_and_their_pauses_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(recorder.DIRECTORY, str(tmp_path))
    monkeypatch.setattr(gc, "callbacks", [])
    monkeypatch.setattr(recorder, "_board", None)
    recorder.begin()
    path = tmp_path / f"{os.getppid()}.{os.getpid()}.board"
    for pause_bucket, generation in ((0, 0), (len(board.PAUSE_BOUNDS_S), 2)):
        recorder._count("start", {})
        recorder._began_ns -= pause_bucket * 10**9
        recorder._count("stop", {"generation": generation, "collected": 7, "uncollectable": 0})
    counts = read_board(path)
    assert counts is not None
    assert counts.collections == (1, 0, 1) and counts.collected == (7, 0, 7)
    assert counts.pauses[-1] == 1 and sum(counts.pauses) == 2
    assert counts.pause_ns > 9 * 10**9
    assert counts.private_at_start_bytes > 0


def test_nothing_is_counted_where_no_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(recorder.DIRECTORY, raising=False)
    monkeypatch.setattr(recorder, "_board", None)
    recorder.begin()
    recorder.count_recycle()
    assert recorder._board is None


def test_a_folder_that_cannot_be_written_is_not_the_workers_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(recorder.DIRECTORY, str(tmp_path / "file" / "folder"))
    recorder.begin()
    recorder.count_recycle()
    assert recorder._board is None
