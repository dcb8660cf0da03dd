"""The builder's part of the record of what a load looks at.

The kernel notes each lookup of this process and its children (src/stub/record.c, `build.lookups`).
It does not know who asks. So a mark is a lookup of a name that is nowhere: between two of them lies
what the builder does for itself, or what the import system lists. A folder that it lists counts by
the names that it has looked for there; one that anything else lists counts by all of its names.
Owns the marks, and those names.
"""

from __future__ import annotations

import importlib.machinery
import os
import posix
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pasture_image.inside.observing import replace

MARK = "/pasture-record/"
STARTED, OWN, COUNTED, LISTS, LISTED, WARMED = (
    f"{MARK}{name}" for name in ("started", "own", "counted", "lists", "listed", "warmed")
)
"""Marks: listings of the import system are marked from now on; what follows does not count, for all
processes; counts again; such a listing begins, for one thread; ends; a warm-up begins."""

_IMPORTS = ("importlib._bootstrap_external", "_frozen_importlib_external")
_METADATA = ("importlib.metadata", "importlib_metadata")
DISTRIBUTIONS = ("*.dist-info", "*.egg-info")
"""In the place of names: installed packages, by the ends of the names of their folders."""

Sought = dict[tuple[str, str], str]
"""By folder and name: where a module was found; "" for nowhere, "/" for a namespace package."""


def mark(name: str) -> None:
    """Leave a mark in the record."""
    posix.access(name, posix.F_OK)


@contextmanager
def own() -> Iterator[None]:
    """What happens inside, in any process, is no part of the load."""
    mark(OWN)
    try:
        yield
    finally:
        mark(COUNTED)


class Imports:
    """Notes what the import system looks for, between `start` and `stop`.

    Attributes:
        sought: what it has looked for in folders.
        names: top-level names that were looked for.
        of_packages: modules that were looked for while a package above them was being loaded.
        before: names of modules that were loaded by then.
        listed_before: folders that it had listed by then.
    """

    def __init__(self) -> None:
        self.sought: Sought = {}
        self.names: set[str] = set()
        self.of_packages: set[str] = set()
        self.before = tuple(sys.modules)
        self.listed_before = frozenset(sys.path_importer_cache)
        self._plain: Callable[..., Any] = importlib.machinery.FileFinder.find_spec
        self._plain_listing: Callable[..., list[Any]] = posix.listdir
        self._listing = self._list  # one object

    def start(self) -> None:
        """Put functions in the place of the import system's."""
        importlib.machinery.FileFinder.find_spec = self._stand_in()  # type: ignore[method-assign]
        posix.listdir = os.listdir = self._listing
        mark(STARTED)

    def stop(self) -> None:
        """Put them back."""
        importlib.machinery.FileFinder.find_spec = self._plain  # type: ignore[method-assign]
        replace(self._listing, self._plain_listing)

    def search_again(self, more: tuple[str, ...]) -> Sought:
        """What is found now. In a process that ends after that.

        Args:
            more: names of modules that were looked for before `start`.
        """
        before, self.sought = self.sought, {}
        names = set(self.names)
        importlib.invalidate_caches()
        self.start()
        for name in (*self.before, *more):
            _search(name)
        for folder, name in before:
            finder = sys.path_importer_cache.get(folder)
            if isinstance(finder, importlib.machinery.FileFinder) and name not in DISTRIBUTIONS:
                finder.find_spec(name)
        self.stop()
        now, self.sought, self.names = self.sought, before, names
        return now

    def _stand_in(self) -> Any:
        def find_spec(finder: Any, fullname: str, target: object = None) -> Any:
            found = self._plain(finder, fullname, target)
            above, _, name = fullname.rpartition(".")
            if not above:
                self.names.add(name)
            elif _is_being_loaded(above):
                self.of_packages.add(fullname)
            self.sought[finder.path, name] = "" if found is None else found.origin or "/"
            return found

        return find_spec

    def _list(self, path: Any = ".") -> list[Any]:
        asker = sys._getframe(1).f_globals.get("__name__")
        if asker in _METADATA:
            for name in DISTRIBUTIONS:
                self.sought[path, name] = "/"
        elif asker not in _IMPORTS:
            return self._plain_listing(path)
        mark(LISTS)
        try:
            return self._plain_listing(path)
        finally:
            mark(LISTED)


def _is_being_loaded(name: str) -> bool:
    """Whether a package is, or one above it."""
    while name:
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if getattr(spec, "_initializing", False):
            return True
        name = name.rpartition(".")[0]
    return False


def _search(name: str) -> None:
    above = sys.modules.get(name.rpartition(".")[0])
    path = getattr(above, "__path__", None)
    try:
        if path is not None or "." not in name:
            importlib.machinery.PathFinder.find_spec(name, path)
    except Exception:  # of a path that a program has put there
        return
