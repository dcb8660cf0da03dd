"""A steady load of numbered jobs, each accounted for: put by a client of the engine's own.

Owns what was put, what was refused, and what `programs/soak_work.py` noted as done.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benchmarks.faults.load import Load, Requests

AT_ONCE = 8
PAUSE_S = 0.1
OVERDUE_S = 30.0
CLIENT_S = 120.0
"""How long a client takes at most for a number: its first may start a driver."""

PROGRAMS = Path(__file__).resolve().parents[2] / "matrix" / "engines" / "programs"


class Done:
    """How often each number was done, as far as the file says."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self.times = Counter[int]()

    def look(self) -> None:
        """Take in what was noted since."""
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._read)
            whole, _, _ = file.read().rpartition(b"\n")
            self._read += len(whole) + bool(whole)
            self.times.update(int(line.split()[0]) for line in whole.splitlines())


class Client:
    """A process that puts numbers; another takes its place if it fails."""

    def __init__(self, python: Path, module: str, env: Mapping[str, str], folder: Path) -> None:
        self._command = [str(python), str(PROGRAMS / "soak_client.py"), module]
        self._env, self._log = dict(env), folder / "client.log"
        self._process: subprocess.Popen[str] | None = None

    def put(self, number: int) -> str | None:
        """None, or why the engine did not take it."""
        if self._process is None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=self._env,
                )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()
            if select.select((self._process.stdout,), (), (), CLIENT_S)[0]:
                line = self._process.stdout.readline()
                if line:
                    return line.partition(" ")[2].strip() or None
        self.close()
        return "the client has failed"

    def close(self) -> None:
        """End it; what it was waiting for is given up."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class Jobs(Load):
    """Jobs put one after the other, no more at a time than the engine can be asked for."""

    def __init__(self, client: Client, done: Done) -> None:
        self._client, self._done = client, done
        self.put: dict[int, float] = {}
        self.refused: dict[int, str] = {}
        self.why: dict[int, str] = {}
        super().__init__()

    def run(self) -> None:
        while self.goes_on:
            self._done.look()
            if len(self.waiting(OVERDUE_S)) < AT_ONCE:
                number, began = self.number(), time.monotonic()
                why = self._client.put(number)
                if why is None:
                    self.put[number] = began
                else:
                    self.refused[number] = why
            time.sleep(PAUSE_S)

    def waiting(self, younger_than_s: float = float("inf")) -> list[int]:
        """Numbers that were put and are not done."""
        since = time.monotonic() - younger_than_s
        times = self._done.times
        return [n for n, began in self.put.copy().items() if began > since and n not in times]

    def done_since(self, since: float) -> int:
        """How many are done of those that were put after that moment."""
        latest = list(self.put.copy().items())[-200:]
        return sum(began > since and n in self._done.times for n, began in latest)

    def settle(self, timeout_s: float) -> None:
        """Wait until all is done, or no more is to be expected."""
        deadline = time.monotonic() + timeout_s
        while self.waiting() and time.monotonic() < deadline:
            time.sleep(0.2)
            self._done.look()

    def lost(self) -> dict[int, float]:
        """When each number was put that was not done."""
        return {number: self.put[number] for number in self.waiting()}


class Asked(Requests):
    """Requests over HTTP, with what was refused before it was accepted apart from what was lost."""

    def __init__(self, port: int, done: Done) -> None:
        self._done = done
        super().__init__(port)

    def done_since(self, since: float) -> int:
        return sum(began > since for began in self.latest.copy())

    def settle(self, timeout_s: float) -> None:
        self._done.look()

    @property
    def refused(self) -> dict[int, str]:
        return {loss.number: loss.why for loss in self.losses.copy() if _is_refused(loss.why)}

    @property
    def why(self) -> dict[int, str]:
        return {loss.number: loss.why for loss in self.losses.copy()}

    def lost(self) -> dict[int, float]:
        return {loss.number: loss.began for loss in self.losses if not _is_refused(loss.why)}


def _is_refused(why: str) -> bool:
    return "ConnectionRefusedError" in why
