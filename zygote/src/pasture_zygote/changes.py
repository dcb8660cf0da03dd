"""Notices, when a program asks, that a zygote would be made of something else by now.

The kernel reports what happens in a folder (`watch`). It does not report that a path
leads elsewhere, so where each tree of folders begins, links and archives are compared at each
request, as is all that cannot be watched. Everything is compared a few times a second at most:
that finds writing through a mapping and other names of a file. Invariant: nothing that `sources`
found is left to none of these.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from pasture_zygote.search import SearchFolder
from pasture_zygote.times import MISSING, FileTimes, Times, changed_ns, times_of
from pasture_zygote.watch import IN_ATTRIB, IN_LOST, IN_OVERFLOW, Watch

_ALL_EVERY_S = 0.25


class Changes:
    """What a zygote was made of, watched from now on.

    Attributes:
        while_loading: paths of what was changed after loading began.
    """

    def __init__(
        self,
        files: Iterable[FileTimes],
        folders: Mapping[str, Collection[str]],
        loading_began_ns: int = 0,
    ) -> None:
        """Watch from now on.

        Args:
            files: as they were when they had been loaded.
            folders: names of modules by the folder where they are looked for.
            loading_began_ns: by `time.time_ns`; 0 if nothing can have changed since.
        """
        self._files: dict[str, Times] = {path: times for path, *times in files}
        self._near: dict[str, Times] = {}
        self._begins: dict[str, tuple[int, int]] = {}
        self._names: dict[int, set[str]] = {}
        self._searched: dict[int, list[SearchFolder]] = {}
        self._near_folders: list[SearchFolder] = []
        self._watch = Watch()
        self._watch_all(self._chains(folders))
        self._folders = [SearchFolder(path, names) for path, names in folders.items()]
        for folder in self._folders:
            number = self._watch.add(folder.path)
            if number is None:
                self._near_folders.append(folder)
            else:
                self._searched.setdefault(number, []).append(folder)
        self.while_loading = self._changed_since(loading_began_ns) if loading_began_ns else set()
        self._compared_s = time.monotonic()
        self._happened = next(self._differing(self._files), "")

    def close(self) -> None:
        """Watch no more."""
        self._watch.close()

    def look(self) -> str:
        """What has changed since the files were as given: a path; "" for nothing."""
        if not self._happened:
            found = chain(self._events_matter(), self._near_differ(), self._all_differ())
            self._happened = next(found, "")
        return self._happened

    # -- what is watched

    def _chains(self, folders: Iterable[str]) -> dict[str, set[str]]:
        """Folders to be watched, with the names of entries that count in them.

        A folder that is reached from another one without a link begins no tree of its own: the
        watch of the one above reports that it was renamed.
        """
        by_folder: dict[str, set[str]] = {folder: set() for folder in folders}
        for path in self._files:
            folder, name = os.path.split(path)
            by_folder.setdefault(folder, set()).add(name)
        real: dict[str, str] = {}
        for folder in sorted(by_folder, key=len):
            begin = next((b for b in _above(folder) if b in real), None)
            real[folder] = os.path.realpath(folder)
            if begin is None or real[folder] != real[begin] + folder[len(begin) :]:
                self._begins[folder] = _identity(folder)
                continue
            at = folder
            while at != begin:
                at, name = os.path.split(at)
                by_folder.setdefault(at, set()).add(name)
        return by_folder

    def _watch_all(self, by_folder: Mapping[str, set[str]]) -> None:
        unseen = set()
        for folder, names in by_folder.items():
            number = self._watch.add(folder)
            if number is None:
                unseen.add(folder)
            else:
                self._names.setdefault(number, set()).update(names)
        for path, times in self._files.items():
            if os.path.split(path)[0] in unseen or Path(path).is_symlink():
                self._near[path] = times
        for folder in unseen:
            self._begins[folder] = _identity(folder)

    def _changed_since(self, since_ns: int) -> set[str]:
        now = time.time_ns()
        found = {path for path in self._files if since_ns <= changed_ns(path) <= now}
        return found.union(*(folder.changed_since(since_ns) for folder in self._folders))

    # -- looking: paths that are not as they were

    def _events_matter(self) -> Iterator[str]:
        for number, mask, name in list(self._watch.events()):
            if mask & IN_LOST:
                yield "a folder"
            elif mask & IN_OVERFLOW:
                yield from self._differing(self._files)
                yield from (folder.path for folder in self._folders if folder.differs())
            elif name in self._names.get(number, ()) and not mask & IN_ATTRIB:
                yield name
            elif name in self._names.get(number, ()):
                yield from self._differing(self._files)
            for folder in self._searched.get(number, ()):
                if folder.matters(name) and folder.differs():
                    yield f"{folder.path}/{name}"

    def _near_differ(self) -> Iterator[str]:
        yield from (path for path, known in self._begins.items() if _identity(path) != known)
        yield from self._differing(self._near)
        yield from (folder.path for folder in self._near_folders if folder.has_changed())
        yield from (folder.path for folder in self._folders if folder.has_new_package())

    def _all_differ(self) -> Iterator[str]:
        if time.monotonic() >= self._compared_s + _ALL_EVERY_S:
            self._compared_s = time.monotonic()
            yield from self._differing(self._files)
            yield from (folder.path for folder in self._folders if folder.has_changed())

    @staticmethod
    def _differing(files: Mapping[str, Times]) -> Iterator[str]:
        return (path for path, times in files.items() if times_of(path) != times)


def _above(folder: str) -> Iterator[str]:
    """The folders above one, the nearest first."""
    while folder not in ("/", ""):
        folder = os.path.split(folder)[0]
        yield folder


def _identity(folder: str) -> tuple[int, int]:
    times = times_of(folder)
    return (times[2], times[3]) if times != MISSING else (0, 0)
