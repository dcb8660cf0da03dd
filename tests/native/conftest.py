"""Every native test runs in a process of its own: it changes the heap for good."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ready_interpreter import IN_CHILD, ReadyInterpreter

TIMEOUT_S = 900
"""Emulated machines are slow; elsewhere pytest's own limit comes first."""

PRELUDE = (
    IN_CHILD
    + """
import gc
from pasture import _native

def seal_objects():
    # Objects are made immortal where they can be.
    if _native.HAS_IMMORTALITY:
        _native.immortalize()

def private_kib():
    with open("/proc/self/smaps_rollup") as lines:
        fields = dict(line.split()[:2] for line in lines if line.startswith("Private_Dirty"))
    return sum(map(int, fields.values()))
"""
)


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
        fresh = fresh or env is not None
        return ready.finished(source, Path.cwd(), TIMEOUT_S, fresh=fresh, env=env).stdout

    return run
