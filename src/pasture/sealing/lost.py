"""The threads that a child lost at the fork and what each did, for tools to read.

A lock that such a thread held stays locked in the child for ever. Without such threads nothing is
noted. Owns the note, in the parent before the fork and in the child after it.
"""

from __future__ import annotations

import threading
from pathlib import Path

from pasture.fork_safety.threads import frames_of_others, stack_of
from pasture.proc.memory_file import Shown
from pasture.trust.untrusted_text import printable

_MAX_THREADS = 50
_DEPTH = 20

_shown = Shown("pasture-lost")
_noted: list[str] = []
_inherited: list[str] = []  # the parent's own note: the child lacks those threads, too


def note() -> None:
    """Note the calls of all other threads, right before a fork. Takes no lock of `threading`."""
    frames = frames_of_others()
    names = {ident: thread.name for ident, thread in dict(threading._active).items()}  # type: ignore[attr-defined]
    calls = ((names.get(i, "a thread"), *stack_of(one, _DEPTH)) for i, one in frames.items())
    _noted[:] = [*map("\t".join, calls), *_inherited][:_MAX_THREADS]


def show() -> None:
    """Publish the note, in the child."""
    _inherited[:] = _noted
    _shown.hide()
    if _noted:
        _shown.show("\n".join(_noted))


def read(pid: int, proc: Path = Path("/proc")) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """Name and calls, innermost first, of each thread that a process lost; None if not noted."""
    for content in _shown.read(pid, proc):
        lines = content.decode("utf-8", "replace").splitlines()[:_MAX_THREADS]
        rows = [tuple(map(printable, line.split("\t"))) for line in lines]
        return tuple((row[0], row[1 : _DEPTH + 1]) for row in rows)
    return None
