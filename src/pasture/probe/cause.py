"""Why a request of the probe failed, in words: as far as exceptions and stacks say.

Owns the choice of frames that are shown, and the sentences that are known to mean a loop or a
connection of the parent's. Reads tracebacks, frames and files' names, and changes nothing.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pasture.fork_safety.threads import frames_of_others
from pasture.observing import INSTALLED, is_installed
from pasture.proc.tasks import read_tasks

_TEXT_CHARACTERS = 300
_DEAD_LOOP = ("different event loop", "different loop", "loop is closed")
_LOST = ("Connection", "OperationalError", "InterfaceError", "Disconnect", "BrokenPipe", "EOFError")
_PYTHON = f"{os.path.dirname(os.path.realpath(os.__file__))}/"  # noqa: PTH120
_OURS = f"{Path(__file__).resolve().parent.parent}/"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of code that runs, or waits."""

    file: str
    line: int
    function: str

    @property
    def is_ours(self) -> bool:
        """Whether it is pasture's."""
        return self.file.startswith(_OURS)

    @property
    def is_of_library(self) -> bool:
        """Whether it is installed, or part of Python, and not the application's own."""
        if not self.file.startswith("/") or self.file.startswith(_PYTHON) or self.is_ours:
            return True
        return is_installed(self.file)

    def __str__(self) -> str:
        name = self.file
        for part in INSTALLED:
            name = name.rpartition(part)[2]
        return f"{self.function} ({name.removeprefix(_PYTHON)}:{self.line})"


def where(places: Sequence[Place]) -> str:
    """The innermost place (outermost first), and the application's innermost if it is another."""
    theirs = [place for place in places if not place.is_ours]
    if not theirs:
        return "no code of the application"
    own = [place for place in theirs if not place.is_of_library]
    if not own or own[-1] == theirs[-1]:
        return str(theirs[-1])
    return f"{theirs[-1]}, called by {own[-1]}"


def where_all(places: Sequence[Place], threads: Iterable[Sequence[Place]]) -> str:
    """As `where`, and what the application's code does in other threads."""
    words = [where(places)]
    words += [where(one) for one in threads if not all(place.is_of_library for place in one)]
    return "; another thread in ".join(dict.fromkeys(words))


def of_exception(error: BaseException) -> str:
    """Type and text of an exception, where it was raised, and what that means if it is known."""
    try:
        text = " ".join(str(error).split())[:_TEXT_CHARACTERS]
    except Exception:
        text = "its text cannot be had"
    raised = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.walk_tb(error.__traceback__)
    places = [_place(frame, line) for frame, line in frames]
    return f"{_meaning(error, text)}{raised}, in {where(places)}"


def _meaning(error: BaseException, text: str) -> str:
    if any(words in text for words in _DEAD_LOOP):
        return "bound to an event loop of the parent: "
    if any(word in base.__name__ for word in _LOST for base in type(error).__mro__):
        return "lost connection: "
    return ""


def of_frame(frame: FrameType | None) -> tuple[Place, ...]:
    """Places of a frame and of those that called it, the outermost first."""
    found = []
    while frame is not None:
        found.append(_place(frame, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))


def of_thread(ident: int) -> tuple[Place, ...]:
    """Where a thread is now."""
    return of_frame(sys._current_frames().get(ident))


def of_other_threads() -> list[tuple[Place, ...]]:
    """Where each other thread of Python's is now."""
    return [of_frame(frame) for frame in frames_of_others().values()]


def waits_for_ever(frame: FrameType | None) -> bool:
    """Whether each thread of this process waits for another one, without a limit of time.

    In the main thread, in a handler of a signal; `frame` is what the signal has interrupted. A
    thread that only the parent has will not come, so nothing here goes on.
    """
    frames = {**frames_of_others(), threading.get_ident(): frame}
    return len(frames) == len(read_tasks()) and all(map(_waits_for_ever, frames.values()))


def _waits_for_ever(frame: FrameType | None) -> bool:
    if frame is None:
        return False
    if frame.f_code is threading.Condition.wait.__code__:
        return frame.f_locals.get("timeout") is None
    pools = sys.modules.get("concurrent.futures.thread")
    worker = getattr(pools, "_worker", None)  # of a pool, which waits for work
    return worker is not None and frame.f_code is worker.__code__


def of_coroutine(coroutine: Any) -> tuple[Place, ...]:
    """Places where a suspended coroutine, and what it waits for, wait; the outermost first."""
    found: list[Place] = []
    while coroutine is not None:
        frame, coroutine = _suspended(coroutine)
        if frame is None:
            break
        found.append(_place(frame, frame.f_lineno))
    return tuple(found)


def _suspended(coroutine: Any) -> tuple[FrameType | None, Any]:
    for kind, awaited in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
        frame = getattr(coroutine, f"{kind}_frame", None)
        if frame is not None:
            return frame, getattr(coroutine, awaited, None)
    return None, None


def of_dump(dump: str) -> tuple[Place, ...]:
    """Places of the main thread in what `faulthandler` wrote, the outermost first."""
    places: list[Place] = []
    for line in dump.splitlines():
        if line.startswith(("Thread ", "Current thread ")):
            places = []  # the main thread comes last
        elif line.startswith('  File "'):
            file, _, rest = line.removeprefix('  File "').partition('", line ')
            number, _, function = rest.partition(" in ")
            places.append(Place(_real(file), int(number) if number.isdecimal() else 0, function))
    return tuple(reversed(places))


def _place(frame: FrameType, line: int | None) -> Place:
    return Place(_real(frame.f_code.co_filename), line or 0, frame.f_code.co_qualname)


def _real(name: str) -> str:
    """The file's path; the name itself where there is no such file, as of compiled code."""
    path = os.path.realpath(name)
    return path if os.path.exists(path) else name  # noqa: PTH110
