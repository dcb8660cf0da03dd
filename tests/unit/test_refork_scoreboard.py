"""What workers and molds of a reforking server show, inside of it and to others."""

from __future__ import annotations

import os

from pasture.scoreboard import layout
from pasture.scoreboard.board import Row, Scoreboard
from pasture.scoreboard.reader import forked_by, read_scoreboard


def test_what_a_worker_shows_is_seen_by_the_server_and_from_outside() -> None:
    board = Scoreboard()
    first, second = board.reserve(), board.reserve()
    assert first is not None and second is not None
    board.register(first, 4711, 0)
    board.register(second, 4712, 3)
    row = Row(board.words, first)
    row.words[layout.REQUESTS] = 12
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


def entries() -> dict[int, layout.Entry]:
    shown = read_scoreboard(os.getpid())
    assert shown is not None
    return shown.entries
