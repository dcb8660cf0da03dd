"""The server that the exporter is for, found again after each restart.

A pid names one server. A pid file, a unit of systemd or a word of the command names the server that
runs now. A file counts only for processes of the file's user.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pasture.errors import PastureError
from pasture.proc import tree
from pasture.proc.packages import read_text
from pasture.proc.stat import start_time
from pasture.trust.foreign_files import open_foreign
from pasture.trust.untrusted_text import printable

_UNITS = (".service", ".scope", ".slice")
_MAX_BYTES = 64


class Named:
    """A server by name; called for its pid.

    Args:
        name: a pid file if it has a slash, a unit if it ends as one, or a word of the command; ""
            is any pre-fork server.
        say: called with a sentence each time that the process changes or disappears.
    """

    def __init__(self, name: str, say: Callable[[str], object]) -> None:
        self._name, self._say = name, say
        self._pid: int | None = None
        self._started = 0

    def __call__(self) -> int | None:
        """Pid of the server's master now, the newest of several; None while it does not run."""
        pid = self._pid
        if (
            "/" in self._name
            or pid is None
            or not (tree.is_running(pid) and start_time(pid) == self._started)
        ):
            pid = max(self._found(), key=start_time, default=None)
        if pid != self._pid:
            self._say("is not running" if pid is None else f"is process {pid}")
            self._pid, self._started = pid, 0 if pid is None else start_time(pid)
        return pid

    def _found(self) -> Iterator[int]:
        if "/" in self._name:
            yield from _in_file(Path(self._name))
        elif self._name.endswith(_UNITS):
            for pid in tree.find_masters():
                # A name in the path of its control group. Source: cgroups(7).
                lines = read_text(f"/proc/{pid}/cgroup").splitlines()
                if any(self._name in line.partition("/")[2].split("/") for line in lines):
                    yield pid
        else:
            for pid in tree.find_masters():
                if any(self._name in word for word in tree.command_of(pid)):
                    yield pid

    def __str__(self) -> str:
        return printable(self._name) or "the pre-fork server"


def _in_file(path: Path) -> Iterator[int]:
    try:
        file = open_foreign(path, most_bytes=_MAX_BYTES, owners=None)
        with os.fdopen(file, encoding="ascii", errors="replace") as opened:
            owner, word = os.fstat(opened.fileno()).st_uid, opened.read(_MAX_BYTES).strip()
        if word.isdecimal():
            pid = tree.server_of(int(word), "metrics")
            if tree.is_running(pid) and owner in (0, Path(f"/proc/{pid}").stat().st_uid):
                yield pid
    except (OSError, PastureError):
        return
