"""Runs a list of operations in a process of its own and says how that ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from case import Operation

PROGRAM = Path(__file__).with_name("program.py")
PROGRESS = "fuzz: operations done: "
TIMEOUT_SECONDS = 120.0
STACKS_SECONDS = 5.0
KEPT_OUTPUT = 20_000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a case ended.

    Attributes:
        status: exit code, negative for a signal; None if it had to be killed.
        done: operations that the parent itself carried out.
        output: the end of stdout and stderr.
    """

    status: int | None
    done: int
    output: str

    @property
    def failed(self) -> bool:
        return self.status != 0 or self.done < 0


def execute(
    python: Path, operations: tuple[Operation, ...], seed: int, seconds: float = TIMEOUT_SECONDS
) -> Ending:
    """Run a case. One that takes longer than `seconds` has hung: its stacks are in the output."""
    process = subprocess.Popen(
        [str(python), "-X", "faulthandler", "-W", "ignore", str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(seed),
        start_new_session=True,
    )
    data = json.dumps([operation.as_json() for operation in operations]).encode()
    status: int | None
    try:
        output, _ = process.communicate(data, timeout=seconds)
        status = process.returncode
    except subprocess.TimeoutExpired:
        output, status = _end_hung(process), None
    finally:
        _signal_session(process.pid, signal.SIGKILL)
    text = output.decode(errors="replace")[-KEPT_OUTPUT:]
    return Ending(status, _done_by(text), text)


def _environment(seed: int) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"PYTHONHASHSEED": str(seed % 2**32), "PYTHONDONTWRITEBYTECODE": "1"}


def _end_hung(process: subprocess.Popen[bytes]) -> bytes:
    """Have a case and its children write where they are; returns all output."""
    _signal_session(process.pid, signal.SIGABRT)
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=STACKS_SECONDS)[0]
    _signal_session(process.pid, signal.SIGKILL)
    return process.communicate()[0]


def _signal_session(leader: int, number: int) -> None:
    """What a case leaves behind does not outlive it."""
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def _done_by(output: str) -> int:
    lines = [line for line in output.splitlines() if line.startswith(PROGRESS)]
    return int(lines[-1].removeprefix(PROGRESS)) if lines else -1
