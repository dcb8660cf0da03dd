"""Every native test runs in a process of its own: it changes the heap for good."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ready_interpreter import ReadyInterpreter

TIMEOUT_S = 900
"""Emulated machines are slow; elsewhere pytest's own limit comes first."""

PRELUDE = """
import gc, os, sys
from pasture import _native

def in_child(body):
    # Runs body() in a forked child; what it returns is printed by the child.
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            print(body())
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"child ended with status {status:#x}"

def seal_objects():
    # Objects are made immortal where they can be.
    if _native.HAS_IMMORTALITY:
        _native.immortalize()

def private_kib():
    with open("/proc/self/smaps_rollup") as lines:
        fields = dict(line.split()[:2] for line in lines if line.startswith("Private"))
    return sum(map(int, fields.values()))
"""


@pytest.fixture(scope="session")
def ready(pytestconfig: pytest.Config) -> ReadyInterpreter:
    interpreter = ReadyInterpreter(PRELUDE)
    pytestconfig.add_cleanup(interpreter.end)
    return interpreter


@pytest.fixture
def run_program(ready: ReadyInterpreter) -> Callable[..., str]:
    """Run Python source in a process of its own; return its output, or fail with its stderr.

    With `env`, and with `fresh`, in an interpreter that has just started.
    """

    def run(source: str, *, env: dict[str, str] | None = None, fresh: bool = False) -> str:
        source = textwrap.dedent(source)
        if fresh or env is not None:
            done = subprocess.run(
                [sys.executable, "-c", PRELUDE + source],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                env=env,
            )
        else:
            done = ready.run(source, Path.cwd(), TIMEOUT_S)
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
