"""Folders that modules make while they are loaded, each load by another name, and keep.

Modules remove such a folder when the program ends. So one program at a time has it: the one that
makes it again. The interpreter runs all others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pasture.errors import ImageFailed

if TYPE_CHECKING:
    from pasture_image.inside.record import Lookup

folders: dict[str, int] = {}
"""Their permissions, by path."""


def found(
    own: Mapping[str, Any],
    other: Mapping[str, Any],
    differ: Set[str],
    lookups: Iterable[Lookup],
) -> list[tuple[str, str]]:
    """What the load that counts has made and its modules keep, and the attribute that does.

    What another load has made in its place is removed, if it is an empty folder.

    Args:
        own: values by path (`kept`); other: of the other load.
        differ: paths on which they differ.
        lookups: of the load that counts.
    """
    from pasture_image.inside import kept, record

    new = {
        lookup.path
        for lookup in lookups
        if lookup.error in record.NOT_THERE and record.writes(lookup)
        if os.path.lexists(lookup.path)
    }
    by_path: dict[str, str] = {}
    for at in sorted(differ & own.keys()):
        text, of_other = (_text(values.get(at)) for values in (own, other))
        for path in new:
            if path in text and path not in of_other:
                by_path.setdefault(path, kept.owner(at))
                before, _, after = text.partition(path)
                with suppress(OSError, ValueError):
                    os.rmdir(of_other.removeprefix(before).removesuffix(after))  # noqa: PTH106
    return sorted(by_path.items())


def keep(made: Collection[tuple[str, str]]) -> list[str]:
    """Have one program at a time have each; returns what to say of it.

    Raises:
        ImageFailed: it is no empty folder.
    """
    for path, owner in made:
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode) or os.listdir(path):  # noqa: PTH208
            raise ImageFailed(
                f"{owner} keeps {path}, which modules made while they were loaded, by another name"
                " each time: programs cannot share it",
                hint="do not preload what makes it",
            )
        folders[path] = stat.S_IMODE(mode)
    return [f"{owner} keeps {path}" for path, owner in made]


def prepare() -> None:
    """Remove what the load has made, with what a rehearsal has left there."""
    for path in folders:
        for below, names, files in os.walk(path, topdown=False):
            for name in files:
                os.unlink(f"{below}/{name}")  # noqa: PTH108
            for name in names:
                os.rmdir(f"{below}/{name}")  # noqa: PTH106
        with suppress(FileNotFoundError):
            os.rmdir(path)  # noqa: PTH106


def begin_program() -> None:
    """Make them for this program.

    Raises:
        RuntimeError: another program has one, or it cannot be made.
    """
    own = []
    try:
        for path, mode in folders.items():
            os.mkdir(path, 0o700)  # noqa: PTH102
            own.append(path)
            os.chmod(path, mode)  # noqa: PTH101
    except OSError as error:
        for path in own:
            os.rmdir(path)  # noqa: PTH106
        raise RuntimeError(
            f"a module keeps {path}, which another program may have: {error.strerror}"
        ) from None


def _text(value: object) -> str:
    if type(value) is bytes:
        return os.fsdecode(value)
    return value if type(value) is str else repr(value)
