"""The same load a third time, where folders that variables name are others. Thrown away.

A module that reads HOME mostly makes paths of it. If the load that counts and this one differ in
nothing but that folder in texts, each program gets its own there (`renewed`); else the variable
counts as any other. Owns the process; `moved` compares.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import posix
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pasture_image.inside import memory, streams
from pasture_image.inside.apart import Apart
from pasture_image.inside.notes import Note
from pasture_image.inside.renewed import Follows, Place, is_plain

_MARK = "zqx7"
"""Of letters and digits alone, which modules seldom replace, and in each part of a path."""
_FOLDERS = ("/dev/shm", "/var/tmp", "/tmp")
_MIN_TIMEOUT_S = 60.0


class Compared(NamedTuple):
    """What a comparison of loads has found.

    Attributes:
        kept: what modules keep of their process.
        follows: each variable, what programs get of their own.
        left: what is against that.
        paths: that code has.
        made: folders and files, with the attributes that keep them (`made.found`).
    """

    kept: list[Note]
    follows: dict[str, Follows]
    left: list[str]
    paths: list[str]
    made: list[tuple[str, str]]


class Elsewhere:
    """A process that waits until it is known which variables name folders."""

    def __init__(
        self, load: Callable[[], object], environ: int, close: Iterable[int], record: int
    ) -> None:
        """Fork it.

        Args:
            load: what it does.
            environ: descriptor of the environment that it has, but for those folders.
            close: descriptors that are not for it.
            record: descriptor of the record of what the load that counts has looked at.
        """
        self._folders = memory.create("pasture-folders")
        self._kept = memory.create("pasture-kept")
        self._environ, self._close, self._record = environ, tuple(close), record

        def work() -> bytes:
            from pasture_image.inside import paths_in_code  # not in the image

            del sys.modules[paths_in_code.__name__]  # modules that go through all see none of ours
            folders = json.loads(memory.read(self._folders))
            names = tuple(folders)
            os.environ.update(folders)
            folders.clear()  # what else has them is a module's
            null = os.open(os.devnull, os.O_WRONLY)  # what is printed was printed
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.close(null)
            gc.disable()  # it forgets tuples of texts
            registered: list[object] = []  # that `atexit` has, before 3.14, is not to be seen
            plain = atexit.register

            def register(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
                registered.append((args, options))
                return plain(function, *args, **options)

            atexit.register = register  # type: ignore[assignment]
            paths = paths_in_code.of(load)
            atexit.register = plain
            streams.flush()
            from pasture_image.inside import moved

            is_seen = moved.write(self._kept, f"{_MARK}{os.getppid()}", names)
            return json.dumps(paths if is_seen else None).encode()

        self._apart = Apart(work, environ, (*close, record), waits=True)
        self._has_ended = False

    def compared(self, names: Iterable[str], other: int, load_s: float) -> Compared:
        """What the loads differ in.

        Args:
            names: of variables that were read.
            other: descriptor of the values of the second load (`kept`).
            load_s: how long a load took.
        """
        values = {name: os.environ.get(name, "") for name in names}
        values = {name: value for name, value in values.items() if _is_folder(value)}
        timeout_s = _MIN_TIMEOUT_S + 5 * load_s

        def look() -> bytes:
            from pasture_image.inside import moved

            return json.dumps(moved.asked(values, self._record)).encode()

        data = Apart(look, self._environ, self._close).result(timeout_s) if values else None
        asked, left = json.loads(data or b"[{}, []]")
        above = _made({values[name].split("/")[1] for name in asked}) if asked else None
        pairs = {name: (values[name], _folder(above, name, values[name])) for name in asked
                 if above is not None}  # fmt: skip
        paths = self._paths(pairs, timeout_s) if pairs else None

        def compare() -> bytes:
            from pasture_image.inside import kept, made, moved, record

            if above is not None:
                moved.remove(above)
            holders: dict[str, tuple[Any, str]] = {}
            own, second = moved.values(holders), kept.read(other)
            by_itself = moved.differing(own, second)
            new = made.found(own, second[-1], by_itself, record.of_modules(self._record))
            owners = {owner for _, owner in new}
            notes = [one for one in kept.notes(own, second, by_itself) if one[1] not in owners]
            notes += kept.of_host(own)
            if paths is not None:
                third = kept.read(self._kept)
                found = moved.compare(pairs, asked, (own, holders), third, by_itself)
            else:
                found = {}, [f"{' or '.join(pairs)} decides what is not seen"] if pairs else []
            return json.dumps([notes, *found, new]).encode()

        data = Apart(compare, self._environ, self._close).result(timeout_s)
        if not data:
            why = "it takes too long" if data is None else "see above"
            said = f"what differs from load to load is not known: {why}"
            print(said, file=sys.stderr, flush=True)
        notes, found, more, new = json.loads(data or b"[[], {}, [], []]")
        notes = [Note(*note) for note in notes]
        return Compared(notes, _resolved(found), [*left, *more], paths or [], new)

    def _paths(self, pairs: Mapping[str, tuple[str, str]], timeout_s: float) -> list[str] | None:
        """Let it load where variables name the other folder; None if something is not seen."""
        with os.fdopen(self._folders, "wb", closefd=False) as file:
            file.write(json.dumps({name: folder for name, (_, folder) in pairs.items()}).encode())
        self._has_ended = True
        found: list[str] | None = json.loads(self._apart.result(timeout_s) or b"null")
        return found

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._has_ended:
            self._apart.end()
        posix.close(self._folders)
        posix.close(self._kept)


def _is_folder(value: str) -> bool:
    return is_plain(value) and os.path.isdir(value)  # noqa: PTH112


def _made(avoided: Collection[str]) -> str | None:
    """A new folder that has nothing in common with others; None if there is none."""
    for folder in _FOLDERS:
        above = f"{folder}/{_MARK}{os.getpid()}"
        if folder.split("/")[1] not in avoided:
            with suppress(OSError):
                posix.mkdir(above, 0o700)
                return above
    return None


def _folder(above: str, name: str, value: str) -> str:
    """A new one for a variable, of another length and depth than before."""
    mark = above.rpartition("/")[2]
    folder = f"{above}/{name}{mark}"
    posix.mkdir(folder, 0o700)
    while len(folder) == len(value) or folder.count("/") == value.count("/"):
        folder += f"/{mark}"
        posix.mkdir(folder, 0o700)
    return folder


def _resolved(found: Mapping[str, Any]) -> dict[str, Follows]:
    """The objects that another process, forked from this one, has named by their addresses."""
    wanted = {place[0] for _, places, *_ in found.values() for place in places}
    objects = {id(one): one for one in gc.get_objects() if id(one) in wanted}
    if wanted - objects.keys():  # the collector does not know all dictionaries of texts
        for one in gc.get_objects():
            for ref in gc.get_referents(one):
                if id(ref) in wanted:
                    objects[id(ref)] = ref
    return {
        name: Follows(
            value,
            tuple(Place(objects[at], key, tuple(parts)) for at, key, parts in places),
            tuple(missing),
            is_there,
        )
        for name, (value, places, missing, is_there) in found.items()
        if all(at in objects for at, *_ in places)
    }
