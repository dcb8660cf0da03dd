"""The questions and objects of a collection that each worker has under plain xdist, and the mold
once.

A module that is imported once cannot know which worker it will serve, and the temporary folder or
the port that it takes would be every worker's. Owns the look-out for that, from the first conftest
until the seal, and restores all that it replaced.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import pasture
from pasture.observing import asker, is_installed
from pasture.own_values import generators
from pasture.proc.tree import children
from pasture.reasons import Hazard
from pytest_pasture import cards

WORKER = "PYTEST_XDIST_WORKER"
KINDS = ("worker-id", "process-id", "temporary-file", "port", "process")
"""Kinds of findings; hazards of the seal bring kinds of their own."""
LASTING = ("worker-id", "process-id", "port")
"""Kinds that last until the seal."""

_MAKERS = ("mkdtemp", "mkstemp", "NamedTemporaryFile")
_OF_PYTHON = (str(Path(tempfile.__file__).parent), "<frozen")
_OWN = str(Path(__file__).parent)
_OWN_AND_PASTURE = (_OWN, str(Path(pasture.__file__).parent))


class Finding(NamedTuple):
    """One thing that forked workers would share, or could not know."""

    kind: str
    what: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.kind})"


def findings_of(hazards: Iterable[Hazard]) -> Iterator[Finding]:
    """Findings that break a forked worker."""
    for hazard in hazards:
        if not hazard.survives:
            yield Finding(hazard.kind, str(hazard))


class _GetPid:
    """`os.getpid`, which says who asks. Like the builtin it is not bound where a class holds it."""

    def __init__(self, note: Callable[[FrameType], None]) -> None:
        self._note, self._act = note, os.getpid

    def __call__(self) -> int:
        self._note(sys._getframe(1))
        return self._act()

    def __reduce__(self) -> tuple[Any, ...]:
        return _builtin, ()

    def __repr__(self) -> str:
        return repr(self._act)


def _builtin() -> Callable[[], int]:
    return os.getpid


class LookOut:
    """The findings; started before the first conftest is imported."""

    worker: str | None = None  # in the mold: what packages with a card get for an answer
    is_loading = False  # the session: not what is shared by its mark

    def __init__(self) -> None:
        self.noted: list[Finding] = []
        self.services: set[int] = set()  # processes that are meant for all workers
        self._unnamed: WeakKeyDictionary[socket.socket, Finding] = WeakKeyDictionary()
        """Sockets at a port of the kernel's choice, until a caller asks which one it is."""

        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        lookout = self
        self.is_loading = True
        generators.observe()
        self._undo.append(generators.forget)

        class Environ(type(os.environ)):  # type: ignore[misc]
            def __getitem__(self, key: str) -> str:
                if key == WORKER and (answer := lookout.answer()) is not None:
                    return answer
                return super().__getitem__(key)  # type: ignore[no-any-return]

        plain = type(os.environ)
        os.environ.__class__ = Environ
        self._undo.append(lambda: setattr(os.environ, "__class__", plain))
        for name in _MAKERS:
            self._note_made(name)
        self._replace(os, "getpid", _GetPid(self._note_pid))
        self._watch_ports()

    def _watch_ports(self) -> None:
        plain: Any = socket.socket
        bound, named = plain.bind, plain.getsockname

        def bind(own: Any, address: Any) -> None:
            bound(own, address)
            if own.family in (socket.AF_INET, socket.AF_INET6):
                found = _finding("port", f"binds port {named(own)[1]}")
                if address[1]:
                    self.noted.append(found)
                else:
                    self._unnamed[own] = found

        def getsockname(own: Any) -> Any:
            if own in self._unnamed:
                self.noted.append(self._unnamed.pop(own))
            return named(own)

        self._replace(plain, "bind", bind)
        self._replace(plain, "getsockname", getsockname)

    @contextmanager
    def of_a_service(self) -> Iterator[None]:
        """Allow programs, ports and temporary files for all workers."""
        noted, unnamed = list(self.noted), dict(self._unnamed)
        before = set(children(os.getpid()))
        try:
            yield
        finally:
            self.services |= set(children(os.getpid())) - before
            added = self.noted[len(noted) :]
            self.noted = noted + [one for one in added if one.kind == "worker-id"]
            self._unnamed = WeakKeyDictionary(unnamed)

    @property
    def findings(self) -> list[Finding]:
        """Findings, without short-lived files and ports that no caller asked for."""
        noted = [one for one in self.noted if not one.path or os.path.lexists(one.path)]
        return noted + [found for one, found in self._unnamed.items() if one.fileno() != -1]

    def answer(self) -> str | None:
        """For code that asks which worker it is in."""
        frame = asker(_passes_on)
        if frame is not None and cards.asked_by(frame):
            return self.worker
        self.note("worker-id", f"asks for {WORKER}")
        return None

    def _note_made(self, name: str) -> None:
        act = getattr(tempfile, name)

        @wraps(act)
        def noted(*args: Any, **kwargs: Any) -> Any:
            made = act(*args, **kwargs)
            path = str(made[1] if isinstance(made, tuple) else getattr(made, "name", made))
            self.note("temporary-file", f"makes {path}", path)
            return made

        self._replace(tempfile, name, noted)

    def _replace(self, owner: Any, name: str, by: object) -> None:
        before = vars(owner).get(name)
        setattr(owner, name, by)
        if before is None:  # inherited
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, before))

    def _note_pid(self, frame: FrameType) -> None:
        """The project's own code names things by it, or sees by it that a fork has come between.

        Installed code that keeps it looks for a fork. Names in modules that were imported now
        outlive the look-out.
        """
        name = frame.f_code.co_filename
        is_of_others = is_of_python(frame) or is_installed(name)
        if self.is_loading and not is_of_others and not name.startswith(_OWN_AND_PASTURE):
            self.note("process-id", "asks for its process id")

    def stop(self) -> None:
        self.is_loading = False
        while self._undo:
            self._undo.pop()()

    def note(self, kind: str, what: str, path: str = "") -> None:
        self.noted.append(_finding(kind, what, path))


def _finding(kind: str, what: str, path: str = "") -> Finding:
    """A finding with the place of the code that runs."""
    frame = asker(_passes_on)
    place = f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else "a module"
    return Finding(kind, f"{place} {what}", path)


def is_of_python(frame: FrameType) -> bool:
    """Whether code of the standard library runs there: it passes on what other code asks for."""
    name = frame.f_code.co_filename
    return "site-packages" not in name and name.startswith(_OF_PYTHON)


def _passes_on(frame: FrameType) -> bool:
    return is_of_python(frame) or frame.f_code.co_filename.startswith(_OWN)


def _short(name: str) -> str:
    try:
        return str(Path(name).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return name


class WorkerInput(dict[str, Any]):
    """The mold's `config.workerinput`, which knows what was read from it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: dict[str, Any] = {}

    def _note(self, key: str) -> None:
        if not cards.asked_by(sys._getframe(2)):
            self.read[key] = super().get(key)

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def differs(self, other: Mapping[str, Any]) -> str | None:
        """A key that was read, and has another value for another worker."""
        return next((key for key, seen in self.read.items() if other.get(key) != seen), None)
