"""Counting inside of a worker: collections, their pauses, and its end for its memory.

Owns the callback with the collector. It does nothing unless PASTURE_METRICS_DIR names a
folder; what cannot be counted there is never the worker's problem.
"""

from __future__ import annotations

import bisect
import contextlib
import gc
import itertools
import os
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from pasture.metrics import board

DIRECTORY = "PASTURE_METRICS_DIR"

_BOUNDS_NS = tuple(int(bound * 1e9) for bound in board.PAUSE_BOUNDS_S)

_board: board.Board | None = None
_began_ns = 0
_requests = itertools.count(1)  # taken from by one thread at a time
_armed = False
_paused = False


def arm() -> None:
    """Have each child of this process count, if a folder is named. In the parent."""
    global _armed
    if not _armed and os.environ.get(DIRECTORY):
        _armed = True
        os.register_at_fork(after_in_child=_begin_in_child)


def pause() -> None:
    """Do not take forked children for workers, until one of them calls `begin` itself."""
    global _paused
    _paused = True


def _begin_in_child() -> None:
    if not _paused:
        begin()


def begin() -> None:
    """Count from now on. In a worker, right after the fork; by hand only for forks of C."""
    global _board, _paused, _requests
    _paused, _requests = False, itertools.count(1)
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return
    try:
        _board = board.Board(Path(directory), os.getppid(), os.getpid())
    except OSError:
        _board = None
        return
    with contextlib.suppress(OSError):
        _board.words[board.PRIVATE_AT_START] = _private_bytes()
    if _count not in gc.callbacks:
        gc.callbacks.append(_count)


def is_wanted() -> bool:
    """Whether there is a folder to count in."""
    return bool(os.environ.get(DIRECTORY))


def count_request() -> None:
    """Note that a response was sent. Threads of a worker may call it at once."""
    if _board is not None:
        _board.words[board.REQUESTS] = next(_requests)


def count_recycle() -> None:
    """Note that this worker is about to be replaced for its memory."""
    if _board is not None:
        _board.words[board.RECYCLES] += 1


def _count(phase: str, info: dict[str, Any]) -> None:
    global _began_ns
    if phase == "start":
        _began_ns = perf_counter_ns()
        return
    if _board is None:
        return
    pause_ns = perf_counter_ns() - _began_ns
    words, generation = _board.words, min(info["generation"], board.GENERATIONS - 1)
    words[board.COLLECTIONS + generation] += 1
    words[board.COLLECTED + generation] += info["collected"]
    words[board.PAUSES + bisect.bisect_left(_BOUNDS_NS, pause_ns)] += 1
    words[board.PAUSE_NS] += pause_ns


def _private_bytes() -> int:
    text = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * sum(int(line.split()[1]) for line in text.splitlines() if line[:7] == "Private")
