"""The place where programs run: scratch folder, time that is left, and how a program is run."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parents[2] / "tests" / "programs" / "gpu"
BIN = Path(sys.executable).parent
TEXT_CHARACTERS = 1500


def missing(*, needs_gpu: bool) -> str | None:
    """Why nothing can be measured here; None if it can."""
    for module in ("torch", "pasture", "pasture_image"):
        if importlib.util.find_spec(module) is None:
            return f"{sys.executable} has no {module}"
    if needs_gpu and not Path("/dev/nvidia0").exists():
        return "there is no /dev/nvidia0"
    return None


@dataclass(frozen=True)
class Machine:
    """Where the programs of a part run."""

    scratch: Path
    ends_s: float  # by the monotonic clock: nothing runs longer
    records: int
    workers: int
    out: Path

    def left_s(self) -> float:
        return self.ends_s - time.monotonic()

    def has_time(self, seconds: float) -> bool:
        return self.left_s() >= seconds

    def run(
        self,
        name: str,
        *command: str | Path,
        env: Mapping[str, str] | None = None,
        limit_s: float = 60.0,
    ) -> dict[str, Any]:
        """Runs a command: its last line as JSON, its times, and its text where that is no JSON."""
        row: dict[str, Any] = {"name": name}
        if not self.has_time(3.0):
            return {**row, "error": "no time left"}
        limit_s = min(limit_s, self.left_s())
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
            start_new_session=True, cwd=self.scratch,
        )  # fmt: skip
        try:
            text, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            end_group(process)
            text, _ = process.communicate()
            row["error"] = f"ended after {limit_s:.0f} s"
        row["wall_s"] = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        row["processor_s"] = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        row["status"] = process.returncode
        return {**row, **parsed(text)}


def end_group(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def parsed(text: str) -> dict[str, Any]:
    """The object in the last line; and the text before it, or all of it, cut."""
    lines = text.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {"text": text[-TEXT_CHARACTERS:]}
    if not isinstance(found, dict):
        return {"text": text[-TEXT_CHARACTERS:]}
    said = "\n".join(lines[:-1])[-TEXT_CHARACTERS:]
    return {**found, "text": said} if said else found


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}


def tool(name: str) -> str:
    """A command of the environment."""
    own = BIN / name
    return str(own) if own.exists() else shutil.which(name) or name
