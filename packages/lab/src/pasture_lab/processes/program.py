"""One of `programs/` run to its end: its JSON, or why it is missing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pasture.errors import NotMeasurable, ServerFailed
from pasture_lab.engine.experiment import Bench
from pasture_tools.launch import session
from pasture_tools.launch.session import Group, last_exception, tail

_PROGRAMS = Path(__file__).parents[1] / "programs"
_POLL_S = 0.02
_TIMEOUT_S = 600.0


def path_of(name: str) -> Path:
    """The path of a program of the lab."""
    return _PROGRAMS / f"{name}.py"


def environment(added: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without a surrounding pasture, and with what is added."""
    ours = {"PYTHONUNBUFFERED": "1", **(added or {})}
    return session.environment(ours, without=("PASTURE_", "LAB_"))


def run_program(bench: Bench, name: str, *arguments: str) -> dict[str, Any]:
    """Run a program of the lab under our interpreter; what it printed as JSON.

    Raises:
        NotMeasurable: the interpreter lacks something.
        ServerFailed: the program failed for another reason.
    """
    log = bench.log(name)
    run_to_end(bench, [sys.executable, str(path_of(name)), *arguments], log)
    try:
        found: dict[str, Any] = json.loads(log.read_text().splitlines()[-1])
    except (ValueError, IndexError):
        raise ServerFailed(
            f"{name} printed no result", hint="its log ends with\n" + tail(log.read_text())
        ) from None
    return found


def run_to_end(
    bench: Bench,
    command: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> str:
    """Run a command to its end; return what it printed.

    Raises:
        NotMeasurable, ServerFailed: it failed; with the last line of its traceback if any.
    """
    start = time.monotonic()
    with Group(command, log=log, env=environment() if env is None else env, cwd=cwd) as group:
        while (code := group.exit_code()) is None:
            if time.monotonic() - start > timeout_s:
                raise ServerFailed(f"{Path(command[0]).name} did not end in {timeout_s:g} s")
            bench.pause(_POLL_S)
    text = log.read_text(errors="replace")
    if code != 0:
        raise _failure(command, code, text)
    return text


def _failure(command: Sequence[str], code: int, text: str) -> NotMeasurable | ServerFailed:
    exception = last_exception(text)
    name = Path(command[1] if command[0] == sys.executable else command[0]).name
    if exception and ("UnsupportedInterpreter" in exception or "ImportError" in exception):
        return NotMeasurable(f"{name}: {exception}", hint="see `pasture doctor`")
    why = f": {exception}" if exception else f" with status {code}"
    return ServerFailed(f"{name} failed{why}", hint="its log ends with\n" + tail(text))
