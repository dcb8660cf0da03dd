"""Places in code, in words: where an exception was raised, and where a process hangs.

Owns the choice of the frames that are shown. Changes no frame.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from pathlib import Path
from traceback import FrameSummary, StackSummary
from types import FrameType
from typing import Any

from pasture.fork_safety.threads import frames_of_others
from pasture.observing import INSTALLED, is_installed

_TEXT_CHARACTERS = 300
_PYTHON = f"{os.path.dirname(os.path.realpath(os.__file__))}/"  # noqa: PTH120
_OURS = f"{Path(__file__).resolve().parent.parent}/"

Places = Sequence[FrameSummary]
"""Lines of code that run, or wait; the outermost first."""


def where(places: Places) -> str:
    """The innermost place, and the application's innermost if that differs."""
    theirs = [place for place in places if not _real(place).startswith(_OURS)]
    if not theirs:
        return "no code of the application"
    own = [place for place in theirs if _is_applications(place)]
    if not own or own[-1] is theirs[-1]:
        return _show(theirs[-1])
    return f"{_show(theirs[-1])}, called by {_show(own[-1])}"


def where_all(places: Places) -> str:
    """As `where`, with the places of the application's code in other threads."""
    others = map(of_frame, frames_of_others().values())
    words = [where(one) for one in others if any(map(_is_applications, one))]
    return "; another thread in ".join(dict.fromkeys((where(places), *words)))


def of_exception(error: BaseException) -> str:
    """Type and text of an exception, and where it was raised."""
    try:
        text = " ".join(str(error).split())[:_TEXT_CHARACTERS]
    except Exception:
        text = "its text cannot be read"
    raised = f"{type(error).__name__}: {text}" if text else type(error).__name__
    walked = traceback.walk_tb(error.__traceback__)
    return f"{raised}, in {where(StackSummary.extract(walked, lookup_lines=False))}"


def of_frame(frame: FrameType | None) -> Places:
    """Places of a frame and its callers."""
    if frame is None:
        return ()
    return StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)[::-1]


def of_coroutine(coroutine: Any) -> Places:
    """Places of a suspended coroutine and of the coroutines that it waits for."""
    found: list[FrameSummary] = []
    while (frame := _first(coroutine, "cr_frame", "gi_frame", "ag_frame")) is not None:
        code = frame.f_code
        found.append(
            FrameSummary(code.co_filename, frame.f_lineno, code.co_name, lookup_line=False)
        )
        coroutine = _first(coroutine, "cr_await", "gi_yieldfrom", "ag_await")
    return found


def _first(coroutine: Any, *names: str) -> Any:
    return next((one for name in names if (one := getattr(coroutine, name, None))), None)


def _is_applications(place: FrameSummary) -> bool:
    """Whether code is the application's: neither installed nor part of Python or pasture."""
    file = _real(place)
    return file.startswith("/") and not (file.startswith((_PYTHON, _OURS)) or is_installed(file))


def _show(place: FrameSummary) -> str:
    name = _real(place)
    for part in INSTALLED:
        name = name.rpartition(part)[2]
    return f"{place.name} ({name.removeprefix(_PYTHON)}:{place.lineno})"


def _real(place: FrameSummary) -> str:
    """The file's path, or the name itself without such a file, as for compiled code."""
    path = os.path.realpath(place.filename)
    return path if os.path.exists(path) else place.filename  # noqa: PTH110
