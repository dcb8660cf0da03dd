"""The inputs of a collection, which show later whether it would differ: the modules that were
imported or looked for, the files that were opened to be read, the folders that were listed, and
missing conftests.

Files that the collection itself wrote do not count, nor do caches. A file that was written after
the process had started may have been read before that: it counts as changed.
"""

# ruff: noqa: PTH100, PTH116 - thousands of paths are looked at before each run

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from importlib.machinery import FileFinder
from pathlib import Path
from stat import S_ISDIR
from typing import NamedTuple

from pasture.observing import Audit, asker, is_of_import
from pasture.proc import OF_THE_KERNEL
from pasture.proc.stat import start_time
from pytest_pasture.lookout import is_of_python

_Stamp = tuple[int, int, int]

_CACHES = ("/__pycache__/", "/.pytest_cache/", "/.hypothesis/", "/.coverage")
_MODULES = (".py", ".so")
_PROGRAMS = (*_MODULES, ".pth", ".dist-info", ".egg-info", ".egg-link")
_CLOCK_TICK_NS = 10_000_000


class Changes(NamedTuple):
    """Paths that changed since the collection."""

    files: tuple[str, ...]
    folders: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.files or self.folders)


class Folder(NamedTuple):
    """The names in a folder; names of folders end with a slash."""

    modified_ns: int
    names: frozenset[str]

    @classmethod
    def of(cls, path: str) -> Folder | None:
        """The present folder; None if it does not exist."""
        try:
            modified_ns = os.stat(path).st_mtime_ns
            with os.scandir(path) as entries:
                names = frozenset(
                    entry.name + "/" * entry.is_dir()
                    for entry in entries
                    if not entry.name.startswith(".") and entry.name != "__pycache__"
                )
        except OSError:
            return None
        return cls(modified_ns, names)


class Snapshot(NamedTuple):
    """The inputs at the end of the collection.

    Attributes:
        listed: folders that were listed by code of the tests, for which each name counts.
        suffixes: those of names that count in other folders.
        absent: paths of missing files.
        imported: the last parts of the names of modules that were imported, or not found.
    """

    files: Mapping[str, _Stamp | None]
    folders: Mapping[str, Folder]
    listed: frozenset[str]
    suffixes: tuple[str, ...]
    absent: frozenset[str] = frozenset()
    imported: frozenset[str] = frozenset()

    def changes(self) -> Changes:
        """The inputs that have changed since."""
        files = [path for path, stamp in self.files.items() if _stamp(path) != stamp]
        files += filter(os.path.exists, self.absent)
        return Changes(tuple(files), tuple(filter(self._differs, self.folders)))

    def new_module(self, path: str) -> str | None:
        """An entry that a folder did not have and an import of the collection would find now."""
        before, now = self.folders[path], Folder.of(path)
        for name in sorted(now.names - before.names) if now is not None else ():
            module = name.partition(".")[0].strip("/")
            if name.endswith(("/", *_MODULES)) and module in self.imported:
                return f"{path}/{name}"
        return None

    def _differs(self, path: str) -> bool:
        before = self.folders[path]
        try:
            if os.stat(path).st_mtime_ns == before.modified_ns:
                return False
        except OSError:
            return True
        now = Folder.of(path)
        if now is None or path in self.listed:
            return now is None or now.names != before.names
        changed = now.names ^ before.names
        return any(name.endswith(("/", *self.suffixes)) for name in changed)


class Inputs:
    """Notes what is opened and listed, from `start` to `stop`."""

    def __init__(self) -> None:
        self.started_ns = _started_ns()
        """The start: files that were written later may have been read before."""
        self._read: set[str] = set()
        self._written: set[str] = set()
        self._listed: set[str] = set()
        self._imported: set[str] = set()
        self._folders: dict[str, Folder] = {}
        self._audit = Audit(self._hear)
        self._is_looking = False  # what is opened and listed meanwhile is ours

    def start(self) -> None:
        self._audit.start()

    def stop(self) -> None:
        self._audit.drop()

    def _hear(self, event: str, words: tuple[object, ...]) -> None:
        if event == "import":
            self._imported.add(str(words[0]).rpartition(".")[2])
        elif event in ("open", "os.listdir", "os.scandir") and words and not self._is_looking:
            self._is_looking = True
            try:
                self._note(event, words[0], words[-1])
            finally:
                self._is_looking = False

    def _note(self, event: str, path: object, flags: object) -> None:
        if isinstance(path, bytes | os.PathLike):
            path = os.fsdecode(path)
        if path is None:
            path = "."
        if not isinstance(path, str):
            return
        path = os.path.abspath(path)
        if path.startswith(OF_THE_KERNEL) or any(one in f"{path}/" for one in _CACHES):
            return
        if event != "open":
            if path not in self._folders and (folder := Folder.of(path)) is not None:
                self._folders[path] = folder
            if _is_tests_own():
                self._listed.add(path)
        elif isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self._written.add(path)
        elif not path.endswith(".pyc"):
            self._read.add(path)

    def snapshot(
        self, more: Iterable[Path], suffixes: Iterable[str], conftests: Iterable[Path] = ()
    ) -> Snapshot:
        """The inputs so far, these files, and the paths where conftests were looked for."""
        self.stop()
        files: dict[str, _Stamp | None] = {}
        found = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        modules = {os.path.abspath(file) for file in found if isinstance(file, str)}
        for path in {*self._read, *modules, sys.executable, *map(str, more)} - self._written:
            if not path.startswith(OF_THE_KERNEL) and (stamp := _stamp(path)) is not None:
                files[path] = stamp if stamp[0] < self.started_ns else None
        folders = dict(self._folders)
        for path, finder in sys.path_importer_cache.items():
            if isinstance(finder, FileFinder) and path not in folders:
                if (folder := Folder.of(path)) is not None:
                    folders[path] = folder
        return Snapshot(
            files,
            folders,
            frozenset(self._listed),
            tuple({*_PROGRAMS, *suffixes} - {""}),
            frozenset(str(path) for path in conftests if not path.exists()),
            frozenset((*self._imported, *(name.rpartition(".")[2] for name in list(sys.modules)))),
        )


def _is_tests_own() -> bool:
    """Whether the tests list a folder, not pytest or the import system."""
    ours = __name__, Audit.__module__
    frame = asker(
        lambda one: (
            one.f_globals.get("__name__") in ours or (is_of_python(one) and not is_of_import(one))
        )
    )
    if frame is None or is_of_import(frame):
        return False
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] not in ("_pytest", "pluggy", "xdist", "pytest_pasture")


def _stamp(path: str) -> _Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    if S_ISDIR(status.st_mode):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _started_ns() -> int:
    """When this process was started, by the wall's clock, rounded up to a tick.

    The kernel rounds down; in its first tick a program has not yet read a file of the user's.
    """
    ticks = start_time(os.getpid())
    since_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 10**9 // os.sysconf(
        "SC_CLK_TCK"
    )
    return time.time_ns() - since_ns + _CLOCK_TICK_NS
