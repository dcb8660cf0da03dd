"""How the built-in collector was set before a policy changed that.

Invariant: the state is taken before the first change, and never again, so that a child
gets the user's thresholds however often its parent was sealed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from pasture.errors import UnsupportedInterpreter
from pasture.heap.interpreter import native

_thresholds: tuple[int, int, int] | None = None


def remember_thresholds() -> None:
    """Keep the thresholds in force now. Only the first call does anything."""
    global _thresholds
    if _thresholds is None:
        _thresholds = gc.get_threshold()


def turn_on() -> None:
    """Collect automatically from now on, with the thresholds from before any policy."""
    if _thresholds is not None:
        gc.set_threshold(*_thresholds)
    gc.enable()


def run_full_out_of_line() -> None:
    """Have full collections write to no surviving object from now on.

    In a process that inherited nearly all of its heap frozen they also come sooner, as long as
    they cost little, and give free memory back to the system.
    Where there is no extension they stay the built-in ones.
    """
    try:
        extension = native()
    except UnsupportedInterpreter:
        return
    extension.watch_collections(True)
    if extension.forget_frozen():
        extension.pace_full_collections()
        extension.trim_after_collections(True)


@contextmanager
def paused() -> Iterator[None]:
    """No automatic collection inside; afterwards as before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def running() -> Iterator[None]:
    """Automatic collection inside, if its thresholds allow; afterwards as before."""
    enabled = gc.isenabled()
    gc.enable()
    try:
        yield
    finally:
        if not enabled:
            gc.disable()
