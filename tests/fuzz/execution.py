"""Runs cases, each in a process that one with its setting forks, and says how they ended.

A server (program.py) has imported what its cases need. It serves the seeds of one batch, so
that a seed means the same in every run. A case leads a session of its own, which does not
outlive it.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from case import Operation, Setting, setting_of

PROGRAM = Path(__file__).with_name("program.py")
PROGRESS = "fuzz: operations done: "
TIMEOUT_SECONDS = 300.0
STACKS_SECONDS = 5.0
START_SECONDS = 120.0
KEPT_OUTPUT = 20_000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a case ended.

    Attributes:
        status: exit code, negative for a signal; None if it had to be killed.
        done: operations that the parent itself carried out.
        output: the end of stdout and stderr.
        cpu_seconds: of the case and of the children that it waited for.
    """

    status: int | None
    done: int
    output: str
    cpu_seconds: float

    @property
    def failed(self) -> bool:
        return self.status != 0 or self.done < 0


class ServerEnded(Exception):
    """The process that forks cases has gone; its words say why."""


class Server:
    """A process that forks cases of one setting, one after the other."""

    def __init__(self, python: Path, setting: Setting) -> None:
        self.setting = setting
        words = ["--large"] if setting.large else []
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [str(python), "-X", "faulthandler", "-W", "ignore", str(PROGRAM), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(setting, python),
        )

    def execute(
        self, operations: tuple[Operation, ...], seed: int, seconds: float = TIMEOUT_SECONDS
    ) -> Ending:
        """Run a case. One that takes longer than `seconds` has hung: its output has its stacks.

        Raises:
            ServerEnded: it could not fork the case.
        """
        with tempfile.NamedTemporaryFile(prefix="fuzz-") as output:
            self._ask(operations, seed, output.name)
            case = int(self._answer(START_SECONDS) or 0)
            if not case:
                raise ServerEnded("forks no case")
            status, cpu_seconds = self._wait(case, seconds)
            text = Path(output.name).read_text(errors="replace")[-KEPT_OUTPUT:]
        return Ending(status, _done_by(text), text, cpu_seconds)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _ask(self, operations: tuple[Operation, ...], seed: int, output: str) -> None:
        assert self._process.stdin is not None
        data = [operation.as_json() for operation in operations]
        line = json.dumps({"seed": seed, "operations": data, "output": output}) + "\n"
        with suppress(BrokenPipeError):
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()

    def _answer(self, seconds: float) -> bytes | None:
        """One line; None if there is none in time."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            return None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise ServerEnded(self._errors.read().decode(errors="replace")[-KEPT_OUTPUT:])
        return line

    def _wait(self, case: int, seconds: float) -> tuple[int | None, float]:
        answer = self._answer(seconds)
        hung = answer is None
        if answer is None:
            _signal_session(case, signal.SIGABRT)  # it and its children write where they are
            answer = self._answer(STACKS_SECONDS)
        _signal_session(case, signal.SIGKILL)
        status, cpu_seconds = json.loads(answer or self._answer(START_SECONDS) or b"[-9, 0]")
        return (None if hung else status), cpu_seconds


class Servers:
    """The server for a case: that of the last one as long as the setting is the same."""

    def __init__(self, python: Path) -> None:
        self._python = python
        self._server: Server | None = None

    def execute(
        self, operations: tuple[Operation, ...], seed: int, seconds: float = TIMEOUT_SECONDS
    ) -> Ending:
        setting = setting_of(seed)
        if self._server is None or self._server.setting != setting:
            self.end()
            self._server = Server(self._python, setting)
        try:
            return self._server.execute(operations, seed, seconds)
        except ServerEnded as error:
            self.end()
            return Ending(1, -1, f"the server ended: {error}", 0.0)

    def end(self) -> None:
        if self._server is not None:
            self._server.end()
        self._server = None


@functools.cache
def _has_mimalloc(python: Path) -> bool:
    asked = "import sysconfig; print(sysconfig.get_config_var('WITH_MIMALLOC'))"
    done = subprocess.run([str(python), "-c", asked], capture_output=True, text=True)
    return done.stdout.strip() == "1"


def words_of(setting: Setting, python: Path) -> list[str]:
    """How a stored failure is run in one process, before the path of its file."""
    given = [f"{name}={text}" for name, text in _variables(setting, python).items()]
    return [*given, str(python), str(PROGRAM), *(["--large"] if setting.large else [])]


def _environment(setting: Setting, python: Path) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return kept | _variables(setting, python)


def _variables(setting: Setting, python: Path) -> dict[str, str]:
    kept = {"PYTHONHASHSEED": str(setting.hash_seed), "PYTHONDONTWRITEBYTECODE": "1"}
    packages = python.parent.parent / "fuzz-packages"
    if setting.large and packages.is_dir():
        kept["PYTHONPATH"] = str(packages)
    if setting.malloc and (setting.malloc != "mimalloc" or _has_mimalloc(python)):
        kept["PYTHONMALLOC"] = setting.malloc
    return kept


def _signal_session(leader: int, number: int) -> None:
    """What a case leaves behind does not outlive it."""
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def _done_by(output: str) -> int:
    lines = [line for line in output.splitlines() if line.startswith(PROGRESS)]
    return int(lines[-1].removeprefix(PROGRESS)) if lines else -1
