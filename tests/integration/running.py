"""A program that a test has started: its log, its children, and its end for certain."""

import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import click
import psutil

from pasture.errors import PastureError
from pasture.scoreboard.layout import Snapshot
from pasture.scoreboard.reader import read_scoreboard
from pasture_tools.cli.run import command as pasture_run
from pasture_tools.launch.ports import LOOPBACK, listens
from pasture_tools.launch.session import Group, environment

__all__ = [
    "TIMEOUT_S",
    "Running",
    "completed",
    "environment",
    "free_port",
    "listens",
    "pasture",
    "waits_in_select",
]

TIMEOUT_S = 300  # of a machine at work, too
PASTURE_RUN = [sys.executable, "-m", "pasture", "run"]
PORTS = range(10_000, 32_000)
"""Below those that the kernel gives by itself."""


def free_port() -> int:
    """A port that no other process of tests has or gets: each locks a byte of one file for it."""
    file, own = _locks()
    while True:
        port = random.SystemRandom().choice(PORTS)
        with suppress(OSError), socket.socket() as probe:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            probe.bind((LOOPBACK, port))
            if port not in own:
                own.add(port)
                return port


@cache
def _locks() -> tuple[int, set[int]]:
    path = f"/tmp/pasture-tests-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600), set()


def completed(command: Sequence[object], **how: Any) -> subprocess.CompletedProcess[str]:
    """A program that has ended by itself, with what it wrote."""
    how = {"capture_output": True, "text": True, "timeout": TIMEOUT_S} | how
    return subprocess.run([str(word) for word in command], **how)


def pasture(*words: object, **how: Any) -> subprocess.CompletedProcess[str]:
    """A command of pasture's that has ended by itself."""
    return completed([sys.executable, "-m", "pasture", *words], **how)


class Running(Group):
    """A program that writes to a log file, in whose folder it runs.

    It has a folder of its own for temporary files: it may be killed, and remove none.

    Attributes:
        timeout_s: how long each wait for something of it may take.
        process: the program itself.
    """

    timeout_s = TIMEOUT_S

    def __init__(self, command: Sequence[str], log_path: Path, env: Mapping[str, str]) -> None:
        temporary = Path(tempfile.mkdtemp(prefix="pasture-tests-"))
        self._remove = weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
        temporary.chmod(0o1777)
        env = {"TMPDIR": str(temporary), **env}
        command, env = _after_pasture_run(command, env, log_path.parent)
        super().__init__(command, log=log_path, env=env, cwd=log_path.parent)
        self.process = self

    def children(self, parent: int | None = None) -> set[int]:
        """Pids of its children, or of another process's, without zombies."""
        children = psutil.Process(parent or self.pid).children()
        return {child.pid for child in children if _is_alive(child)}

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        super().wait_for(condition, f"{what} did not happen", timeout_s=self.timeout_s)

    def wait_for_starts(self, number: int) -> Snapshot:
        """Wait until so many workers have been counted, and return the scoreboard.

        Each counts its start itself, some time after its fork.
        """

        def board() -> Snapshot:
            found = read_scoreboard(self.pid)
            assert found is not None
            return found

        self.wait_for(lambda: board().total.starts == number, f"start number {number}")
        return board()

    def wait_for_end(self) -> int:
        return self.wait(self.timeout_s)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.send_signal(number)
        return self.wait_for_end()

    def destroy(self) -> None:
        """Kill whatever is still there: it and all that came of it."""
        self.end(polite_s=0)
        self._remove()


def waits_in_select(pid: int) -> bool:
    """Whether a process, its first thread, waits for connections, messages or a time."""
    try:
        wchan = Path(f"/proc/{pid}/wchan").read_text()
    except OSError:  # it has ended
        return False
    return "poll" in wchan or "select" in wchan


class _Replaced(BaseException):
    """`pasture run` would be another program now, with these words and variables."""


def _after_pasture_run(
    command: Sequence[str], env: Mapping[str, str], folder: Path
) -> tuple[Sequence[str], Mapping[str, str]]:
    """What `pasture run` replaces itself by, asked for in this process; others as they are.

    The start of the command takes a tenth of a second of processor. One that it refuses is started
    nevertheless: its log then has what it says.
    """

    def replace(path: str, words: list[str], environ: Mapping[str, str]) -> NoReturn:
        raise _Replaced(words, environ)

    if list(command[:4]) != PASTURE_RUN:
        return command, env
    try:
        with patch.dict(os.environ, env, clear=True), patch("os.execve", replace), chdir(folder):
            pasture_run.main(list(command[4:]), standalone_mode=False)
    except _Replaced as replaced:
        return replaced.args
    except (PastureError, click.ClickException):
        pass
    return command, env


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
