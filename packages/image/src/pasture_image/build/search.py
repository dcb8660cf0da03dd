"""A folder in which modules are looked for: which of its entries are, or would hide, a loaded one.

Nothing else in the folder counts: a log or a database beside `app.py` may come and go.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from importlib.machinery import all_suffixes

from pasture_image.build.sources import PATH_FILES
from pasture_image.inside.times import MISSING, FileTimes, changed_ns, times_of

_PACKAGE = "package"
_INITS = tuple(f"__init__{suffix}" for suffix in all_suffixes())


class SearchFolder:
    """A folder, and the names of modules that count in it."""

    def __init__(self, path: str, names: Collection[str]) -> None:
        self.path = path
        self.names = frozenset(names)
        self._has_path_files = PATH_FILES in self.names
        self._no_packages: set[str] = set()
        self._found = self._list()

    def _matters(self, name: str) -> bool:
        return name in self.names or f"{name}/" in self.names or self._is_file(name)

    def changed_since(self, since_ns: int) -> set[str]:
        """Paths of entries that count and came, or were changed, after a moment."""
        if changed_ns(self.path) < since_ns:
            return set()
        paths = (path for entry in self._found for path in self._files_of(entry))
        return {path for path in paths if changed_ns(path) >= since_ns}

    def found(self) -> set[str]:
        """Entries that count; `name/` for a folder."""
        return {n if not kind or n.endswith(".pth") else f"{n}/"
                for n, _, kind in (entry.partition("\0") for entry in self._found)}  # fmt: skip

    def path_files(self) -> list[str]:
        """Paths of `.pth` files, the content of which counts, too."""
        names = (entry.partition("\0")[0] for entry in self._found)
        return [f"{self.path}/{name}" for name in names if name.endswith(".pth")]

    def inits(self) -> list[str]:
        """Paths of files that would make a package of a folder which has a name that counts."""
        return [f"{path}/{init}" for path in self._no_packages for init in _INITS]

    def _files_of(self, entry: str) -> list[str]:
        name, _, kind = entry.partition("\0")
        path = f"{self.path}/{name}"
        return [f"{path}/{init}" for init in _INITS] if kind == _PACKAGE else [path]

    def _is_file(self, name: str) -> bool:
        module, dot, suffix = name.partition(".")
        if self._has_path_files and name.endswith(".pth"):
            return True
        is_importable = suffix in ("py", "pyc", "so") or suffix.endswith(".so")
        return bool(dot) and is_importable and module in self.names

    def _list(self) -> frozenset[str]:
        self._no_packages = set()
        try:
            with os.scandir(self.path) as entries:
                found = {self._entry(entry) for entry in entries if self._matters(entry.name)}
        except OSError:
            return frozenset()
        return frozenset(found - {""})

    def _entry(self, entry: os.DirEntry[str]) -> str:
        """An entry that counts, as it is compared; empty if it does not count."""
        if entry.name.endswith(".pth"):
            return f"{entry.name}\0{times_of(entry.path)}"
        if self._is_file(entry.name):
            return entry.name
        if not entry.is_dir():
            return ""
        if f"{entry.name}/" in self.names:
            return f"{entry.name}\0namespace"
        if _is_package(entry.path):
            return f"{entry.name}\0{_PACKAGE}"
        self._no_packages.add(entry.path)
        return ""


def _is_package(folder: str) -> bool:
    return any(times_of(f"{folder}/{name}") != MISSING for name in _INITS)


def changed_since(
    since_ns: int, files: Iterable[FileTimes], folders: Mapping[str, Collection[str]]
) -> set[str]:
    """Paths of what an image was made of that came, or was changed, after a moment.

    Args:
        since_ns: by `time.time_ns`.
        files: that were read.
        folders: names of modules by the folder where they are looked for.
    """
    now = time.time_ns()
    found = {path for path, *_ in files if since_ns <= changed_ns(path) <= now}
    return found.union(
        *(SearchFolder(path, names).changed_since(since_ns) for path, names in folders.items())
    )
