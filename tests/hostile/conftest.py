"""Heaps that break assumptions: each in a process of its own, which it may bring down.

`run_program` forks it from an interpreter that is not sealed, or starts one. `run_each` forks a
process for each of several programs from one such process.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest

from tests.ready_interpreter import IN_CHILD, ReadyInterpreter

EXTENSIONS = Path(__file__).parent / "extensions"
TIMEOUT_S = 500

PRELUDE = (
    IN_CHILD
    + """
import gc, signal, weakref
import pasture, pasture.gc
from pasture import _native

class Node:
    pass

def cycle(type=Node):
    node = type()
    node.self = node
    return node
"""
)


# Each program runs at the top of its module and ends as any program does.
EACH = """
for name, source in PROGRAMS.items():
    print(f"\\n--- {name}\\n", end="", flush=True)
    pid = os.fork()
    if pid == 0:
        break
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"{name} ended with status {status:#x}")
else:
    sys.exit()
exec(compile(source, name, "exec"))
"""


@pytest.fixture(scope="session")
def ready(pytestconfig: pytest.Config) -> ReadyInterpreter:
    interpreter = ReadyInterpreter(PRELUDE, PYTHONFAULTHANDLER="1", PYTHONPATH="")
    pytestconfig.add_cleanup(interpreter.end)
    return interpreter


@pytest.fixture
def run_program(tmp_path: Path, ready: ReadyInterpreter) -> Callable[..., str]:
    """Run Python source in a process of its own; return its output, or fail with its stderr.

    With variables, a path or options, and with `fresh`, in an interpreter that has just started.
    """

    def run(
        source: str,
        *,
        env: Mapping[str, str] | None = None,
        path: Sequence[Path] = (),
        words: Sequence[str] = (),
        timeout_s: int = TIMEOUT_S,
        fresh: bool = False,
    ) -> str:
        variables = {**os.environ, "PYTHONFAULTHANDLER": "1", **(env or {})}
        variables["PYTHONPATH"] = os.pathsep.join(map(str, path))
        fresh = bool(fresh or env or path or words)
        return ready.finished(
            source, tmp_path, timeout_s, fresh=fresh, words=words, env=variables
        ).stdout

    return run


@pytest.fixture
def run_each(run_program: Callable[..., str]) -> Callable[..., dict[str, str]]:
    """Run programs one after the other, each in a fork of a fresh interpreter.

    Takes a dict of name to Python source, and what `run_program` takes; returns a dict of name to
    output, or fails with the name of the first one that does not end well.
    """

    def run(programs: Mapping[str, str], **how: Any) -> dict[str, str]:
        sources = {name: textwrap.dedent(source) for name, source in programs.items()}
        parts = run_program(f"PROGRAMS = {sources!r}\n{EACH}", **how).split("\n--- ")
        return dict(part.split("\n", 1) for part in parts[1:])

    return run


@pytest.fixture(scope="session")
def build_extension(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile extensions/NAME.c for this interpreter; the folder to put on the path."""
    compiler = shutil.which("cc")
    headers = Path(sysconfig.get_path("include"))
    built: dict[str, Path] = {}

    def build(name: str) -> Path:
        if compiler is None or not (headers / "Python.h").exists():
            pytest.skip(f"no C compiler, or no headers of this interpreter in {headers}")
        if name not in built:
            built[name] = tmp_path_factory.mktemp(name)
            target = built[name] / f"{name}.abi3.so"  # a suffix that each version loads
            command = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", f"-I{headers}"]
            command += ["-o", str(target), str(EXTENSIONS / f"{name}.c")]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return built[name]

    return build


@pytest.fixture(scope="session")
def generators() -> Callable[..., Path]:
    """The folder with Cython, pybind11, ... as `make test-bindings` installs them.

    Skips the test where one of the modules that it names is not there.
    """
    folder = Path(sys.prefix) / "generator-packages"

    def find(*modules: str) -> Path:
        for module in modules:
            if PathFinder.find_spec(module, [str(folder)]) is None:
                pytest.skip(f"{module} is not there: make test-bindings installs what has a wheel")
        return folder

    return find
