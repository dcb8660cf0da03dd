"""Engines that a program of the user's starts itself, recognized by its imports.

For `pasture run -- python app.py`. A finder imports the module that seals an engine right after the
engine's own. Invariant: the engine's module is unchanged after any error.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from pasture.errors import PastureError
from pasture.log_lines import log
from pasture.servers.engines import ENGINES
from pasture.trust.untrusted_text import complain

_FORKS_ARE_WATCHED = ("multiprocessing", "forkserver")
"""Rows that `pasture run -- python` handles itself."""


def watch(arguments: Sequence[str]) -> None:
    """Seal engines that the program with these arguments for Python imports."""
    switches = switches_of(arguments)
    for seen in [seen for seen in switches if seen in sys.modules]:  # out of an image
        _switch_on(switches.pop(seen))
    if switches:
        sys.meta_path.insert(0, _Watch(switches))


def switches_of(arguments: Sequence[str]) -> dict[str, str]:
    """Dict of an engine's module to the one that seals it; one entry for an engine's program."""
    rows = [row for row in ENGINES.values() if row.seen_by and row.name not in _FORKS_ARE_WATCHED]
    # The first of two rows with one module counts.
    every = {row.seen_by: row.module for row in reversed(rows)}
    own = ENGINES.get(_name_of(arguments))
    return {own.seen_by: every[own.seen_by]} if own in rows and own.is_program else every


def _name_of(arguments: Sequence[str]) -> str:
    kind, program = (*arguments[:2], "", "")[:2]
    if kind == "-m":
        return program.partition(".")[0]
    return kind.rpartition("/")[2].removesuffix(".py")


class _Watch:
    def __init__(self, switches: dict[str, str]) -> None:
        self._left = switches
        self._finding = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if self._finding or name not in self._left:
            return None
        self._finding = True  # another finder may ask this one
        try:
            spec = _find(name, path, target)
        finally:
            self._finding = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _follow(spec.loader, name, self._left)
        return spec


def _find(name: str, path: Any, target: Any) -> ModuleSpec | None:
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    found = (find(name, path, target) for find in finders if find is not None)
    return next((spec for spec in found if spec is not None), None)


def _follow(loader: Any, name: str, left: dict[str, str]) -> None:
    execute = loader.exec_module

    def execute_and_switch_on(module: ModuleType) -> None:
        execute(module)
        if module.__name__ == name and name in left:
            parent, _, last = name.rpartition(".")
            # The import does this next: it is not finished yet.
            setattr(sys.modules[parent], last, module)
            _switch_on(left.pop(name))

    try:
        loader.exec_module = execute_and_switch_on
    except (AttributeError, TypeError):  # a loader of another package's
        return


def _switch_on(module: str) -> None:
    try:
        importlib.import_module(module)
    except PastureError as error:
        complain(error)
    except Exception as error:
        log.error("%s failed: %s: %s", module, type(error).__name__, error)
