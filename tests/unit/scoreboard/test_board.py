"""The scoreboard: what it adds up, whom it believes, and what happens where it cannot be had."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
import random
import subprocess
import sys
from dataclasses import make_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pasture.proc import memory_file as files
from pasture.proc.stat import HIGHEST_PID, has_ended, start_time
from pasture.scoreboard import board as module
from pasture.scoreboard import layout, reader
from pasture.scoreboard.board import Row, Scoreboard, Slot
from pasture.scoreboard.figures import PAUSE_BOUNDS_S, Counts, Table, row
from pasture.scoreboard.growth import Growth, growth_of
from pasture.scoreboard.layout import Entry, Snapshot, understand
from pasture.scoreboard.recorder import Recorder, recorder

NO_PROCESS = HIGHEST_PID - 1
REPORT = {
    "policy": "seal",
    "interpreter": {"version": "3.14.0"},
    "sealed": True,
    "round": 2,
    "objects": 7,
    "plugged_bytes": 8,
    "seconds": 0.5,
}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that has not started, and forgets what the test did."""
    for name, value in vars(Recorder()).items():
        monkeypatch.setattr(recorder, name, value)
    monkeypatch.setattr(recorder, "_watching", True)
    monkeypatch.setattr(gc, "callbacks", [])


def seen(board: Scoreboard) -> Snapshot:
    snapshot = reader.copy_of(board.words)
    assert snapshot is not None
    return snapshot


def memory_files() -> list[Path]:
    """The scoreboards of this process."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the folder itself, by now
            if layout.NAME in str(path.readlink()):
                found.append(path)
    return found


def memory_file() -> Path:
    """The one scoreboard of this process."""
    [path] = memory_files()
    return path


def worker(board: Scoreboard, pid: int = NO_PROCESS, **counts: int) -> Slot:
    """A row as a worker leaves it behind."""
    slot = board.reserve()
    assert slot is not None
    words = Row(board.words, slot).words
    words[layout.PID], words[layout.STARTED] = pid, 1
    for name, value in {"starts": 1, **counts}.items():
        words[layout.COUNTS.at[name]] = value
    return slot


def test_what_a_worker_counts_is_read_by_pid_and_in_the_sum() -> None:
    board = Scoreboard()
    first = worker(board, 71, recycles=2, requests=3, pause_ns=5)
    Row(board.words, first).words[layout.PRIVATE_AT_START] = 9
    worker(board, 72, requests=4)
    snapshot = seen(board)
    assert snapshot.entries[71].counts == Counts(1, 2, 3, pause_ns=5)
    assert snapshot.entries[71].private_at_start_bytes == 9
    assert snapshot.total == Counts(2, 2, 7, pause_ns=5)


def test_what_an_ended_worker_counted_stays_in_the_sum_once() -> None:
    board = Scoreboard()
    for _ in range(3):
        worker(board, requests=5)
        for _ in range(2):
            board.sweep()
    assert seen(board).entries == {}
    assert seen(board).total == Counts(starts=3, requests=15)


class Interrupted(Exception):
    pass


class Stores:
    """Memory in which only the given number of stores are made before an exception."""

    def __init__(self, words: memoryview, left: int) -> None:
        self._words, self.left = words, left

    def __getitem__(self, at: Any) -> Any:
        return self._words[at]

    def __setitem__(self, at: int, value: int) -> None:
        if not self.left:
            raise Interrupted
        self.left -= 1
        self._words[at] = value


def test_wherever_the_move_into_the_sum_is_cut_short_no_one_sees_the_sum_change() -> None:
    expected = Counts(starts=2, recycles=1, requests=11)
    stores = 0
    while True:
        board = Scoreboard(rows=4)
        board.release(worker(board, requests=4).number)
        slot, memory = worker(board, requests=7, recycles=1), board.words
        stopped: Any = Stores(memory, stores)
        board.words = stopped
        try:
            board.release(slot.number)
            is_whole = True
        except Interrupted:
            is_whole = False
        board.words = memory
        assert seen(board).total == expected, f"after {stores} stores"
        board.release(slot.number)
        board.release(slot.number)
        assert seen(board).total == expected, f"done again after {stores} stores"
        if is_whole:
            break
        stores += 1
    assert stores > layout.COUNTS.end - layout.COUNTS.begin


def test_a_signal_handler_in_the_middle_of_a_change_leaves_its_row_to_the_next_sweep() -> None:
    board = Scoreboard()
    slot = worker(board, requests=5)
    with board._changing:
        board.release(slot.number)
    assert seen(board).total.requests == 5 and NO_PROCESS in seen(board).entries
    board.sweep()
    assert seen(board).total.requests == 5 and seen(board).entries == {}


def test_a_row_of_a_pid_that_came_around_again_keeps_its_counts_and_is_freed() -> None:
    """The process with that pid lives, but began at another time."""
    board = Scoreboard()
    worker(board, os.getpid(), requests=5)
    again = worker(board, os.getpid(), requests=1)
    Row(board.words, again).words[layout.STARTED] = start_time(os.getpid())
    assert seen(board).entries[os.getpid()].counts.requests == 1
    assert seen(board).total.requests == 6
    board.sweep()
    assert seen(board).entries[os.getpid()].counts.requests == 1
    assert seen(board).total.requests == 6


def test_a_process_is_gone_if_its_pid_is_or_began_at_another_time() -> None:
    mine = start_time(os.getpid())
    assert mine > 0
    assert not has_ended(os.getpid(), mine) and not has_ended(os.getpid(), 0)
    assert has_ended(os.getpid(), mine - 1) and has_ended(NO_PROCESS, 0)


def test_a_row_that_was_taken_back_cannot_be_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Scoreboard(rows=1)
    late = board.reserve()
    assert late is not None
    board.sweep()
    assert board.reserve() is None
    monkeypatch.setattr(module, "UNCLAIMED_S", -1.0)
    now = board.reserve()
    assert now is not None and now.number == late.number
    assert not Row(board.words, late).claim()
    assert Row(board.words, now).claim() and Row(board.words, now).claim()


def test_a_row_that_another_process_has_claimed_cannot_be_claimed() -> None:
    board = Scoreboard()
    assert not Row(board.words, worker(board, os.getpid() + 1)).claim()


def test_where_rows_run_out_that_is_reported_once_and_starts_are_counted(
    fresh: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder, "_board", Scoreboard(rows=1))
    for _ in range(3):
        recorder.expect_worker()
        recorder.forked()
    assert caplog.text.count("the scoreboard is full") == 1
    snapshot = recorder.snapshot()
    assert snapshot is not None and snapshot.total == Counts(starts=2)


def test_announcing_a_fork_twice_takes_one_row(fresh: None) -> None:
    recorder.expect_worker()
    recorder.expect_worker()
    assert len(recorder._expected) == 1
    board = recorder.scoreboard()
    assert board is not None and len(board._taken) == 1


def test_where_the_memory_cannot_be_had_nothing_is_counted(
    fresh: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    for _ in range(2):
        recorder.expect_worker()
        recorder.show_seal(REPORT)
        recorder.begin()
        recorder.count("requests")
        recorder.count("recycles")
    assert recorder.snapshot() is None
    assert caplog.text.count("no metrics: memory for the counters is missing") == 1
    assert memory_files() == []


def test_a_python_built_for_an_old_c_library_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    board = Scoreboard(rows=4)
    worker(board, 71, requests=3)
    assert reader.read_scoreboard(os.getpid()) == seen(board)


def test_no_process_can_cut_the_memory_or_finds_a_hole_in_it() -> None:
    board = Scoreboard()
    path = memory_file()
    size = path.stat().st_size
    assert path.stat().st_blocks * 512 >= size == board.words.nbytes
    for length in (0, size * 2):
        with pytest.raises(PermissionError):
            os.truncate(path, length)


def test_collections_and_their_pauses_are_counted(fresh: None) -> None:
    recorder.expect_worker()
    recorder.begin()
    for pause_bucket, generation in ((0, 0), (len(PAUSE_BOUNDS_S), 2)):
        recorder._count_collection("start", {})
        recorder._began_ns -= pause_bucket * 10**9
        recorder._count_collection(
            "stop", {"generation": generation, "collected": 7, "uncollectable": 0}
        )
    snapshot = recorder.snapshot()
    assert snapshot is not None
    entry = snapshot.entries[os.getpid()]
    counts = entry.counts
    assert counts.collections == (1, 0, 1) and counts.collected == (7, 0, 7)
    assert counts.pauses[-1] == 1 and sum(counts.pauses) == 2
    assert counts.pause_ns > 9 * 10**9
    assert entry.private_at_start_bytes > 0 and entry.generation is None


MB = 1_000_000


@pytest.mark.parametrize(
    ("requests", "marks", "now", "found"),
    [
        (256, (10, 12, 16), 16, ("31.2", 64)),  # 2 MB in 64 requests, 4 MB in 128
        (360, (10, 12, 16), 20, ("33.8", 64)),
        (508, (10, 12, 16), 16.5, None),  # it no longer grows
        (508, (10, 10, 14), 21, ("28.9", 128)),  # it began to
        (508, (10, 15, 16), 16.1, None),  # a cache that has filled
        (508, (10.0, 10.1, 10.2), 10.4, None),  # too little
        (255, (10, 12, 16), 20, None),  # pages that are asked for the first time
        (508, (0, 12, 16), 23, None),
    ],
)
def test_growth_that_goes_on_with_the_requests_looks_like_a_leak(
    requests: int, marks: tuple[float, ...], now: float, found: tuple[str, int] | None
) -> None:
    held = tuple(int(mark * MB) for mark in marks)
    entry = Entry(1, counts=Counts(requests=requests), says_requests=True, marks=held)
    growth = growth_of(entry, int(now * MB))
    if found is None:
        assert growth is None
    else:
        assert growth is not None and growth.since == found[1]
        assert str(growth).startswith(f"grows by {found[0]} KB a request since request {found[1]}:")
    assert growth_of(replace(entry, says_requests=False), int(now * MB)) is None


def test_a_worker_notes_what_it_holds_each_time_that_its_requests_have_doubled(
    fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.will_count_requests()
    recorder.expect_worker()
    recorder.begin()
    for number in range(1, 321):
        held = SimpleNamespace(anonymous_bytes=number * MB)
        monkeypatch.setattr("pasture.scoreboard.recorder.read_own", lambda held=held: held)
        recorder.answered()
    snapshot = recorder.snapshot()
    assert snapshot is not None
    entry = snapshot.entries[os.getpid()]
    assert (entry.requests, entry.marks) == (320, (64 * MB, 128 * MB, 256 * MB))
    assert recorder.growth() == growth_of(entry, 320 * MB) == Growth(1e6, 64)


def test_all_figures_fit_into_a_row() -> None:
    assert max(layout.SEAL.end, layout.MARKS.stop) <= layout.ROW_WORDS


def test_a_figure_more_or_in_another_place_or_of_another_type_is_another_layout() -> None:
    def laid_out(*names: tuple[str, type]) -> int:
        rows = [(name, kind, row(0)) for name, kind in names]
        return layout.digest({"COUNTS": Table(make_dataclass("Rows", rows), 9)})

    as_it_is = laid_out(("a", int), ("b", int))
    assert as_it_is == laid_out(("a", int), ("b", int))
    others = [laid_out(("b", int), ("a", int)), laid_out(("a", int), ("b", float))]
    others += [laid_out(("a", int)), laid_out(("a", int), ("b", int), ("c", int))]
    assert len({as_it_is, *others}) == 5


def test_each_process_finds_the_same_layout() -> None:
    program = "from pasture.scoreboard import layout; print(layout.MAGIC)"
    shown = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert int(shown) == layout.MAGIC


def test_a_scoreboard_that_is_laid_out_otherwise_is_left_alone() -> None:
    board = Scoreboard()
    assert reader.read_scoreboard(os.getpid()) == seen(board)
    board.words[layout.MAGIC_AT] = layout.digest({"COUNTS": "others"})
    assert reader.read_scoreboard(os.getpid()) is None


def test_requests_are_reported_only_by_servers_that_count_them() -> None:
    assert Entry(1).requests is None
    assert Entry(1, says_requests=True).requests == 0


def test_the_seal_is_shown_to_a_reader(fresh: None) -> None:
    recorder.show_seal({**REPORT, "policy": "naïve\x1b[2Jpolicy of a very great length, " * 3})
    snapshot = reader.read_scoreboard(os.getpid())
    assert snapshot is not None and snapshot.seal is not None
    seal = snapshot.seal
    assert (seal.python, seal.sealed, seal.round, seal.seconds) == ("3.14.0", True, 2, 0.5)
    assert seal.policy.startswith("na?ve[2Jpolicy of") and seal.policy.isprintable()


def test_whatever_lies_in_the_memory_is_read_as_numbers() -> None:
    chance = random.Random(1)
    for _ in range(20):
        words = [
            chance.choice((0, 1, 2**64 - 1, chance.getrandbits(64)))
            for _ in range(16 * layout.ROW_WORDS)
        ]
        snapshot = understand(words)
        assert all(isinstance(count, int) for count in (snapshot.total.starts, *snapshot.entries))
        assert snapshot.seal is None or snapshot.seal.policy.isprintable()


def test_a_server_stands_whatever_its_workers_write_to_the_memory() -> None:
    chance, board = random.Random(1), Scoreboard(rows=8)
    for _ in range(200):
        for at in chance.sample(range(len(board.words)), 40):
            board.words[at] = chance.choice((0, 1, os.getpid(), 2**64 - 1, chance.getrandbits(64)))
        board.sweep()
        if (slot := board.reserve()) is not None and chance.random() < 0.5:
            board.release(slot.number)
    assert len(board._free) + len(board._taken) == 8


def test_memory_of_that_name_that_is_no_scoreboard_is_left_alone() -> None:
    whole = (layout.FIRST_ROW + 1) * layout.ROW_BYTES
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    for size, sealed in ((whole, 0), (whole, seals), (layout.ROW_BYTES, seals), (0, seals)):
        file = os.memfd_create(layout.NAME, os.MFD_ALLOW_SEALING)
        os.ftruncate(file, size)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, sealed)
        assert reader.read_scoreboard(os.getpid()) is None
        os.close(file)


def test_memory_of_another_user_is_left_alone() -> None:
    if os.getuid() != 0:
        pytest.skip("gives a file to another user")
    board = Scoreboard()
    path = memory_file()
    assert reader.read_scoreboard(os.getpid()) == seen(board)
    os.chown(path, 12345, 12345)
    assert reader.read_scoreboard(os.getpid()) is None


def test_what_is_not_memory_is_not_even_opened(tmp_path: Path) -> None:
    """Opening a FIFO would wait for a process to write to it."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    for path in (tmp_path / "fifo", tmp_path / "file", Path("/dev/zero")):
        with pytest.raises(OSError, match="is not memory"), files.opened(path):
            pass


def test_a_process_without_a_scoreboard_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "1" / "fd").mkdir(parents=True)
    (tmp_path / "1" / "status").write_text("Uid:\t0\t0\t0\t0\n")
    (tmp_path / "1" / "fd" / "3").symlink_to(f"/memfd:{layout.NAME} (deleted)")
    assert reader.read_scoreboard(1, tmp_path) is None
    assert reader.read_scoreboard(2, tmp_path) is None
