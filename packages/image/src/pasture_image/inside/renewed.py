"""Values that follow a variable which names a folder, as HOME: each program gets its own.

`elsewhere` finds them by a load in which the folder is another one. Owns how they are put into a
program, and for which folders: what modules have looked for there is not there, and the folder has
no part in how the program is started.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import CellType, FunctionType
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where a text is kept.

    Attributes:
        holder: a dictionary, list, class, function (its defaults), cell or instance.
        key: in it.
        parts: of the text; the folder is between each two.
    """

    holder: Any
    key: str | int
    parts: tuple[str, ...]


class Follows(NamedTuple):
    """What follows a variable.

    Attributes:
        value: that it had.
        places: that hold it.
        missing: ends of paths at which nothing was.
        is_there: whether modules have noticed that the folder is there.
    """

    value: str
    places: tuple[Place, ...]
    missing: tuple[str, ...]
    is_there: bool


variables: dict[str, Follows] = {}
"""By name."""

paths: tuple[str, ...] = ()
"""That code of modules has, and may have compared folders with."""


def begin_program() -> None:
    """Put the program's own folders where those of the build were.

    Raises:
        RuntimeError: the interpreter has to run it.
    """
    for name, follows in variables.items():
        now = os.environ.get(name)
        if now == follows.value:
            continue
        if now is None or not is_plain(now) or is_of_start(now):
            raise RuntimeError(f"{name} names no folder that can take the place of the build's")
        if follows.is_there and not _is_own(now):
            raise RuntimeError(f"{name} names no folder of this user")
        for path in paths:
            if now.startswith(path) or path.startswith(now):
                raise RuntimeError(f"{name} may be compared with {path}, which a module's code has")
        for end in follows.missing:
            if os.path.lexists(now + end):
                raise RuntimeError(f"{now}{end} is there, and was not for the build")
        for holder, key, parts in follows.places:
            _put(holder, key, now.join(parts))


def is_plain(path: str) -> bool:
    """Whether modules cannot but append to a path."""
    is_absolute = path.startswith("/") and path == os.path.normpath(path) != "/"
    return is_absolute and all(one.isalnum() or one in "/._-+@" for one in path)


def is_of_start(folder: str, more: Iterable[str] = ()) -> bool:
    """Whether a folder is one of the interpreter, of its packages, or above one."""
    below = f"{folder}/"
    own = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.executable, *sys.path, *more)
    return any(f"{one}/".startswith(below) for one in own if one)


def _is_own(folder: str) -> bool:
    try:
        owner = os.stat(folder).st_uid  # noqa: PTH116
    except OSError:
        return False
    is_folder = os.path.isdir(folder) and os.path.realpath(folder) == folder  # noqa: PTH112
    return is_folder and owner == os.getuid()


def _put(holder: Any, key: Any, text: str) -> None:
    kind = type(holder)  # `isinstance` would run code of a proxy
    if issubclass(kind, (dict, list)):
        holder[key] = text
    elif issubclass(kind, type):
        type.__setattr__(holder, key, text)
    elif issubclass(kind, FunctionType):
        before: tuple[Any, ...] = holder.__defaults__ or ()
        holder.__defaults__ = (*before[:key], text, *before[key + 1 :])
    elif issubclass(kind, CellType):
        holder.cell_contents = text
    else:
        object.__setattr__(holder, key, text)
