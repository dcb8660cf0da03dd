"""Test files that have changed, collected again in a process forked from what was kept.

Nodes of what has not changed stay: folders with their fixtures, and files with their tests. A
changed file is imported again; what its earlier version registered elsewhere may remain.
Where other modules name the file, everything is collected again.
"""

from __future__ import annotations

import importlib
import linecache
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from _pytest.reports import CollectReport

from pytest_pasture.inputs import Changes, Snapshot

MAX_FILES = 20
"""Changed files; with more of them everything is collected again."""


class Collected:
    """The nodes of a collection, by path."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        self.folders: dict[Path, pytest.Directory] = {}
        self.items: dict[pytest.File, list[pytest.Item]] = {}
        for node in session._collection_cache:
            if isinstance(node, pytest.Directory):
                self.folders[node.path] = node
            elif isinstance(node, pytest.File):
                self.items[node] = []
        for item in session.items:
            for above in item.listchain():
                if isinstance(above, pytest.Directory):
                    self.folders[above.path] = above
                elif isinstance(above, pytest.File):
                    self.items.setdefault(above, []).append(item)
        self.modules = {
            node.path: node
            for node in self.items
            if isinstance(node, pytest.Module) and not isinstance(node, DoctestModule)
        }

    def reason_for_all(self, changes: Changes, snapshot: Snapshot) -> str | None:
        """Why no part of the collection can be made again alone."""
        if len(changes.files) > MAX_FILES:
            return f"{len(changes.files)} files have changed"
        own = {str(node.path) for node in self.items if not isinstance(node, DoctestModule)}
        for path in changes.files:
            if path in snapshot.absent:
                return f"{_short(path)} is new"
            if path not in own:
                return f"{_short(path)} has changed"
            if (other := self._named_in(Path(path), snapshot)) is not None:
                return f"{_short(path)} has changed, and {_short(other)} names it"
        for path in changes.folders:
            folder = Path(path)
            if folder not in self.folders or path in snapshot.listed:
                return f"{_short(path)} has gained or lost files"
            if (module := snapshot.new_module(path)) is not None:
                return f"{_short(module)} is new"
        if changes and any("::" in word for word in self.session.config.args):
            return "files have changed, and tests of a file are named"
        return None

    def _named_in(self, path: Path, snapshot: Snapshot) -> str | None:
        """Another file of the project, imported too, that has this one's name in it."""
        name = re.compile(rb"\b" + re.escape(path.stem.encode()) + rb"\b")
        root = f"{self.session.config.rootpath}/"
        for other in snapshot.files:
            if other.startswith(root) and other.endswith(".py") and other != str(path):
                if "/site-packages/" not in other:
                    try:
                        if name.search(Path(other).read_bytes()):
                            return other
                    except OSError:
                        continue
        return None

    def update(self, changes: Changes) -> None:
        """Replace the session's tests by the present ones."""
        changed = {Path(path) for path in changes.files}
        for file in [file for file in self.items if file.path in changed]:
            self._forget(file)
        importlib.invalidate_caches()
        session = self.session
        for node in list(session._collection_cache):
            if not any(above in self.items for above in node.listchain()):
                del session._collection_cache[node]
        session.config.pluginmanager.register(self, "pasture-again")
        try:
            report: CollectReport = session.config.hook.pytest_make_collect_report(
                collector=session
            )
            session.items[:] = [item for node in report.result for item in self._items(node)]
        finally:
            session.config.pluginmanager.unregister(self)

    def _forget(self, node: pytest.File) -> None:
        del self.items[node]
        self.modules.pop(node.path, None)
        module = getattr(node, "_obj", None)
        if module is not None:
            sys.modules.pop(module.__name__, None)
        linecache.cache.pop(str(node.path), None)
        known = getattr(self.session._fixturemanager, "_arg2fixturedefs", {})
        for name, found in known.items():  # pytest before 9.1 finds fixtures by the file's id
            known[name] = [one for one in found if one.baseid.partition("::")[0] != node.nodeid]

    def _items(self, node: pytest.Item | pytest.Collector) -> Iterator[pytest.Item]:
        if isinstance(node, pytest.File) and node in self.items:
            yield from self.items[node]
        elif isinstance(node, pytest.Directory):
            report, _ = self.session._collect_one_node(node)
            for child in report.result if report.passed else ():
                yield from self._items(child)
        else:
            yield from self.session.genitems(node)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path) -> pytest.Directory | None:
        return self.folders.get(path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path: Path) -> pytest.Module | None:
        return self.modules.get(module_path)


def conftests(config: pytest.Config) -> list[Path]:
    """Where conftests were looked for, found or not."""
    manager = config.pluginmanager
    folders = {one for folder in manager._dirpath2confmods for one in (folder, *folder.parents)}
    return [folder / "conftest.py" for folder in folders if manager._is_in_confcutdir(folder)]


def _short(path: str) -> str:
    return os.path.relpath(path) if path.startswith(f"{Path.cwd()}/") else path
