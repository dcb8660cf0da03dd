"""The requests of code while it is loaded: modules, files, objects of audit events.

Owns one finder, one scope of audit events, and the search for the code that asks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from types import FrameType
from typing import Any

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native

INSTALLED = ("/site-packages/", "/dist-packages/")
"""Parts of the names of files that were installed."""


class Finder:
    """Notes the names of modules that are looked up, and finds none."""

    def __init__(self, note: Callable[[str], object]) -> None:
        self._note = note

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        self._note(name)

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Remove the finder, if it is installed."""
        with suppress(ValueError):
            sys.meta_path.remove(self)


class Audit:
    """Hears audit events from `start` to `stop`.

    The interpreter keeps its hook until `drop`, and to its end where the extension does not fit.
    """

    def __init__(self, hear: Callable[[str, tuple[Any, ...]], object]) -> None:
        self._hear = hear
        self._hook = self._take
        self._is_hooked = self._is_open = False

    def start(self) -> None:
        if not self._is_hooked:
            sys.addaudithook(self._hook)
            self._is_hooked = True
        self._is_open = True

    def start_or_refuse(self) -> bool:
        """Start; returns whether that worked: a hook of the program's may refuse another one."""
        self._is_hooked = self._is_open = native().add_audit_hook(self._hook)
        return self._is_open

    def stop(self) -> None:
        self._is_open = False

    def drop(self) -> None:
        self.stop()
        if self._is_hooked:
            with suppress(UnsupportedInterpreter):
                native().drop_audit_hook(self._hook)
                self._is_hooked = False

    def _take(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_open:
            self._hear(event, arguments)


def asker(passes_on: Callable[[FrameType], bool]) -> FrameType | None:
    """The nearest caller's frame that does not only pass on another one's request."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and passes_on(frame):
        frame = frame.f_back
    return frame


def is_installed(file: str) -> bool:
    """Whether a file, or code that was compiled under its name, was installed."""
    return any(part in file for part in INSTALLED)


def is_of_import(frame: FrameType) -> bool:
    """Whether a frame belongs to the import system."""
    return frame.f_code.co_filename.startswith("<frozen importlib")


def is_importing(outer: FrameType | None = None) -> bool:
    """Whether this thread imports a module.

    Args:
        outer: a frame of the thread; an import that has led to it does not count.
    """
    found = asker(lambda frame: frame is not outer and not is_of_import(frame))
    return found is not None and found is not outer


def asker_besides(on_the_way: Collection[str]) -> str:
    """The name of the module that asks, other than these if possible."""

    def passes_on(frame: FrameType) -> bool:
        name = frame.f_globals.get("__name__")
        return frame.f_back is not None and (name == __name__ or name in on_the_way)

    frame = asker(passes_on)
    return str(frame and frame.f_globals.get("__name__"))
