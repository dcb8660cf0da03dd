"""Counting inside of a server's processes: who began, requests, collections, pauses, recycles.

Owns this process's place on the scoreboard and the callback of the collector. The server reserves
a row before each fork for a worker (`expect_worker`), and the child claims it. Any other child
releases what it inherited. Without memory for a scoreboard nothing is counted, and the server works
as usual.
"""

from __future__ import annotations

import bisect
import contextlib
import gc
import logging
import os
import threading
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

from pasture.proc.smaps import own_private_bytes
from pasture.scoreboard import layout, reader
from pasture.scoreboard.board import Row, Scoreboard, Seat

log = logging.getLogger("pasture")

_NO_LONGER_NEEDED = "PASTURE_METRICS_DIR"
_BOUNDS_NS = tuple(int(bound * 1e9) for bound in layout.PAUSE_BOUNDS_S)

_board: Scoreboard | None = None
_cannot: OSError | None = None
_watching = False
_is_descendant = False
_ran_out = False
_expected: dict[int, Seat] = {}
"""By thread that is about to fork: two may do so at once."""

_tells_requests = False
_row: Row | None = None
_row_pid = 0
_began_ns = 0
_requests = threading.Lock()


# --- In the server ----------------------------------------------------------------------


def watch_forks() -> None:
    """Make each child of this process claim the row reserved for it, or count nowhere."""
    global _watching
    if _watching:
        return
    _watching = True
    os.register_at_fork(after_in_parent=forked, after_in_child=_after_in_child)
    if os.environ.get(_NO_LONGER_NEEDED):
        log.warning("%s is no longer needed: workers count in memory", _NO_LONGER_NEEDED)


def scoreboard() -> Scoreboard | None:
    """The server's scoreboard, made at the first call; None if there is no memory for it."""
    global _board, _cannot
    if _board is None and _cannot is None and not _is_descendant:
        watch_forks()
        try:
            _board = Scoreboard()
        except OSError as error:
            _cannot = error
            log.warning("no metrics: the memory to count in cannot be had: %s", error)
    return _board


def expect_worker() -> None:
    """Announce that the next fork of this thread is a worker's. Call it in the server.

    Calls again change nothing until that fork.
    """
    global _ran_out
    thread = threading.get_ident()
    if _is_descendant or _row is not None or thread in _expected:
        return
    board = scoreboard()
    if board is None:
        return
    board.sweep(if_due=True)
    seat = board.reserve()
    if seat is not None:
        _expected[thread] = seat
        return
    board.count_start()
    if not _ran_out:
        _ran_out = True
        log.warning("the scoreboard is full: of further workers only the start is counted")


def forked() -> None:
    """Note that the announced fork took place. Call it by hand only after a fork of C code."""
    _expected.pop(threading.get_ident(), None)


def will_count_requests() -> None:
    """Say that workers call `count_request`, so that a worker without requests shows 0."""
    global _tells_requests
    _tells_requests = True


def show_seal(report: Mapping[str, Any]) -> None:
    """Show the figures of a seal. In the process that loaded the application.

    Args:
        report: what `SealReport.as_dict` gives.
    """
    board = scoreboard()
    if board is None:
        return
    words = board.words
    for at, count, text in (
        (layout.POLICY_AT, layout.POLICY_WORDS, report["policy"]),
        (layout.PYTHON_AT, layout.PYTHON_WORDS, report["interpreter"]["version"]),
    ):
        for offset, word in enumerate(layout.words_of(str(text), count)):
            words[at + offset] = word
    words[layout.SEALED] = bool(report["sealed"])
    words[layout.ROUND] = report["round"]
    words[layout.OBJECTS] = report["objects"]
    words[layout.PLUGGED_BYTES] = report["plugged_bytes"]
    words[layout.SEAL_NS] = int(report["seconds"] * 1e9)
    words[layout.SEAL_SHOWN] = 1


def show_probe(outcome: str) -> None:
    """Show what a probe of the sealed process came to: one of `layout.PROBES`."""
    board = scoreboard()
    if board is not None:
        board.words[layout.PROBE] = layout.PROBES.index(outcome)


def snapshot() -> layout.Snapshot | None:
    """The scoreboard that this process has made or inherited; None without one."""
    return None if _board is None else reader.copy_of(_board.words)


# --- In a worker ------------------------------------------------------------------------


def _after_in_child() -> None:
    global _row, _is_descendant, _requests
    _requests = threading.Lock()  # another thread of the parent may have held it
    if _row_pid == os.getpid():
        return  # it has begun by hand already
    seat = _expected.get(threading.get_ident())
    _expected.clear()
    _row = None
    _is_descendant = _board is not None
    if seat is not None:
        begin(seat)


def begin(seat: Seat | None = None) -> None:
    """Count from now on, in a worker. Call it by hand only after forks of C code and of molds.

    Args:
        seat: reserved for this process; None for that of the fork that was announced.
    """
    global _row, _row_pid, _is_descendant
    if _row_pid == os.getpid() or _board is None:
        return
    seat = seat or _expected.get(threading.get_ident())
    _expected.clear()
    _row, _row_pid, _is_descendant = None, os.getpid(), True
    if seat is None:
        return
    row = Row(_board.words, seat)
    if not row.claim():
        return
    _row = row
    row.words[layout.STARTS] = 1
    row.words[layout.TELLS_REQUESTS] = _tells_requests
    with contextlib.suppress(OSError):
        row.words[layout.PRIVATE_AT_START] = own_private_bytes()
    if _count not in gc.callbacks:
        gc.callbacks.append(_count)


def count_request() -> None:
    """Note that a response was sent. Threads of a worker may call it at once."""
    if _row is not None:
        with _requests:
            _row.words[layout.REQUESTS] += 1


def count_recycle() -> None:
    """Note that this worker is about to be replaced for its memory."""
    if _row is not None:
        _row.words[layout.RECYCLES] += 1


def _count(phase: str, info: dict[str, Any]) -> None:
    global _began_ns
    if _row is None:
        return
    if phase == "start":
        _began_ns = perf_counter_ns()
        return
    pause_ns = perf_counter_ns() - _began_ns
    words, generation = _row.words, min(info["generation"], layout.GENERATIONS - 1)
    words[layout.COLLECTIONS + generation] += 1
    words[layout.COLLECTED + generation] += info["collected"]
    words[layout.PAUSES + bisect.bisect_left(_BOUNDS_NS, pause_ns)] += 1
    words[layout.PAUSE_NS] += pause_ns
