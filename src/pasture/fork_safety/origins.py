"""The lines that make threads, locks and connections while an application is imported.

Audit events name what is made; frames of the callers say where. Keeps numbers and texts, never the
objects themselves. Source: the table of audit events of CPython's documentation.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType
from typing import Any

from pasture.observing import Audit, is_installed, is_of_import

_STANDARD_LIBRARY = (sysconfig.get_path("stdlib"), "<frozen ")
_OWN = f"{os.path.dirname(os.path.dirname(__file__))}{os.sep}"  # noqa: PTH120
_THREADS = ("_thread.start_new_thread", "_thread.start_joinable_thread")
_PROCESSES = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system")
_EXCLUSIVE = os.O_CREAT | os.O_EXCL


class Origins:
    """Records what is made from `start` to `stop`.

    Attributes:
        created: paths that were created exclusively, temporary folders among them, with the line.
    """

    def __init__(self) -> None:
        self.created: dict[str, str] = {}
        self._threads: dict[int, str] = {}
        self._files: dict[int, str] = {}
        self._bound: set[int] = set()
        self._databases: dict[str, str] = {}
        self._process = ""
        self._audit = Audit(self._hear)

    def start(self) -> None:
        self._audit.start()

    def stop(self) -> None:
        self._audit.drop()

    def of_thread(self, thread: object) -> str:
        return self._threads.get(id(thread), "")

    def of_file(self, number: int) -> str:
        return self._files.get(number, "")

    def is_bound(self, number: int) -> bool:
        """Whether the program has bound a socket of this number, and not connected it since."""
        return number in self._bound

    def of_database(self, path: str) -> str | None:
        """The line that opened a SQLite database; None for another file."""
        return self._databases.get(os.path.realpath(path))

    def of_process(self) -> str:
        """The line that started a process last."""
        return self._process

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _EXCLUSIVE == _EXCLUSIVE:
                self._note_path(path)
        elif event in _THREADS:
            self._threads[id(getattr(arguments[0], "__self__", arguments[0]))] = _line()
        elif event in ("tempfile.mkdtemp", "tempfile.mkstemp"):
            self._note_path(arguments[0])
        elif event in ("socket.connect", "socket.bind"):
            number = arguments[0].fileno()
            self._files[number] = _line()
            (self._bound.add if event == "socket.bind" else self._bound.discard)(number)
        elif event in ("fcntl.flock", "fcntl.lockf", "fcntl.fcntl"):
            if isinstance(arguments[0], int):
                self._files[arguments[0]] = _line()
        elif event == "sqlite3.connect":
            self._databases[os.path.realpath(str(arguments[0]))] = _line()
        elif event in _PROCESSES:
            self._process = _line()

    def _note_path(self, path: Any) -> None:
        """The event comes before the call, which fails where another process has the file."""
        if isinstance(path, str | bytes) and not os.path.lexists(path):
            self.created[os.path.abspath(os.fsdecode(path))] = _line()  # noqa: PTH100


def _line() -> str:
    """The innermost line of the program's own; else of an installed package; else ""."""
    installed = ""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not (is_of_import(frame) or file.startswith(_OWN)):
            if is_installed(file):
                installed = installed or _show(frame)
            elif not file.startswith(_STANDARD_LIBRARY):
                return _show(frame)
        frame = frame.f_back
    return installed


def _show(frame: FrameType) -> str:
    module = str(frame.f_globals.get("__name__", ""))
    file = frame.f_code.co_filename
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118
    return f"{module} in {file.removeprefix(here)}:{frame.f_lineno}"
