"""What workers and molds of a reforking server show, inside of it and to others."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pasture.scoreboard import layout, reader
from pasture.scoreboard.board import Row, Scoreboard
from pasture.scoreboard.reader import forked_by, read_scoreboard


@pytest.fixture
def make_children(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the kernel call processes the children of this one."""

    def make(*pids: int) -> None:
        def read_stat(pid: int) -> Any:
            return SimpleNamespace(parent_pid=os.getpid() if pid in pids else 1)

        monkeypatch.setattr(reader, "read_stat", read_stat)

    return make


def test_what_a_worker_shows_is_seen_by_the_server_and_from_outside(
    make_children: Callable[..., None],
) -> None:
    make_children(4711, 4712)
    board = Scoreboard()
    first, second = board.reserve(), board.reserve()
    assert first is not None and second is not None
    board.register(first, 4711, 0)
    board.register(second, 4712, 3)
    row = Row(board.words, first)
    row.words[layout.COUNTS.at["requests"]] = 12
    row.show_serving(True)
    assert board.status(first).requests == 12 and board.status(first).ready
    assert not board.status(second).ready
    board.promote(second, 4)
    shown = entries()
    assert (shown[4711].role, shown[4711].generation) == ("worker", 0)
    assert shown[4711].counts.requests == 12
    assert (shown[4712].role, shown[4712].generation) == ("mold", 4)
    assert forked_by(4711, os.getpid()) == os.getpid()
    board.promote(second, 0)
    assert forked_by(4711, os.getpid()) == 4712
    board.release(first.number)
    assert set(entries()) == {4712}


def test_a_process_that_is_no_child_of_the_server_is_not_taken_for_its_mold(
    make_children: Callable[..., None],
) -> None:
    make_children(4711)
    board = Scoreboard()
    for pid, promoted in ((4711, False), (1, True), (2**64 - 1, True)):
        slot = board.reserve()
        assert slot is not None
        board.register(slot, pid, 3)
        if promoted:
            board.promote(slot, 3)
    assert len(entries()) == 3
    assert forked_by(4711, os.getpid()) == os.getpid()


def test_a_number_of_requests_that_no_word_can_hold_is_cut() -> None:
    board = Scoreboard()
    board.wake_at(2**64 + 5)
    assert board.words[layout.LIMIT] == 2**64 - 1


def entries() -> dict[int, layout.Entry]:
    shown = read_scoreboard(os.getpid())
    assert shown is not None
    return shown.entries


def test_a_child_without_a_row_is_no_worker_beside_those_that_have_one() -> None:
    entries = {
        11: layout.Entry(11),
        12: layout.Entry(12, 1, "mold"),
        13: layout.Entry(13, None, "mule"),
    }
    assert reader.roles_of((11, 12, 13, 14), entries) == {
        11: "worker",
        12: "mold",
        13: "mule",
        14: "other",
    }
    assert reader.workers_among((10, 11, 13), entries) == (11,)
    assert reader.workers_among((21, 22), entries) == (21, 22), "of another server's scoreboard"
    full = {pid: layout.Entry(pid) for pid in range(1, layout.ROWS + 1)}
    assert reader.workers_among((1, 5000), full) == (1, 5000)
