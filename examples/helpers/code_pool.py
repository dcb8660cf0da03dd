"""Runs pieces of code in processes of their own, with limits: as an interpreter of an agent does.

    $ pasture image build -o code.img --preload numpy,pandas
    $ PASTURE_IMAGE=$PWD/code.img python code_pool.py

Each piece gets a fresh process in milliseconds, with numpy and pandas loaded. The process is the
one that `subprocess` starts, so limits, process group and kill work as on any other. Limits bound
what code uses up; they are no sandbox: code of strangers needs one around this.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PYTHON = Path(sys.executable).with_name("pasture-python")


@dataclass(frozen=True)
class Limits:
    """What a piece of code may use up."""

    seconds: float = 10.0
    cpu_seconds: int = 5
    memory_bytes: int = 2 << 30
    file_bytes: int = 10 << 20
    processes: int = 200

    def set(self) -> None:
        """In the child, before it executes the interpreter."""
        for name, limit in (
            (resource.RLIMIT_CPU, self.cpu_seconds),
            (resource.RLIMIT_AS, self.memory_bytes),
            (resource.RLIMIT_FSIZE, self.file_bytes),
            (resource.RLIMIT_NPROC, self.processes),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(name, (limit, limit))


@dataclass(frozen=True)
class Outcome:
    """What came of a piece of code; a negative status is the signal that ended it."""

    status: int
    output: str
    ran_out_of_time: bool = False


def run_code(source: str, limits: Limits | None = None) -> Outcome:
    """Run one piece; its process and all that it has started are gone afterwards."""
    limits = limits or Limits()
    process = subprocess.Popen(
        [PYTHON, "-c", source],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=limits.set,
        start_new_session=True,
    )
    late = False
    try:
        output, _ = process.communicate(timeout=limits.seconds)
    except subprocess.TimeoutExpired:
        late = True
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if late:
        output, _ = process.communicate()
    return Outcome(process.returncode, output, late)


def run_all(sources: Iterable[str], at_once: int = 4) -> list[Outcome]:
    """Run many, some at a time."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run_code, sources))


if __name__ == "__main__":
    for outcome in run_all(
        [
            "import pandas as pd; print(pd.DataFrame({'a': [1, 2]}).sum())",
            "print(1 / 0)",
            "while True: pass",
            "x = bytearray(8 << 30)",
        ]
    ):
        print(outcome)
