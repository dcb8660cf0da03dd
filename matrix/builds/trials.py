"""What is tried on one build of CPython, and the outcome.

pasture is installed from source and by the wheel that `make wheels` left, each into an environment
of its own below build/builds. On the first run the native tests; on both a child's private
memory is measured. Nothing here reads a result that an earlier run left.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent
FOLDER = REPOSITORY / "build" / "builds"
WHEELS = REPOSITORY / "dist" / "wheels"
TESTS = ("tests/native", "tests/hostile/test_zoo.py", "tests/hostile/test_interrupted_seal.py")
PROGRAM = "matrix/builds/child_memory.py"
NATIVE_TIME_LIMIT_S = 1800
NEEDED = ("psutil", "click", "rich", "pytest", "pytest-timeout")

_ENV = os.environ | {"CC": "cc"}
"""The host's compiler builds pasture, also for an interpreter that was built by one not here."""

ASK = """\
import json, os, platform, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(),
    "compiler": platform.python_compiler(),
    "shared": bool(sysconfig.get_config_var("Py_ENABLE_SHARED")),
    "options": sysconfig.get_config_var("CONFIG_ARGS") or "",
}))
"""


@dataclass(frozen=True)
class Memory:
    """What `child_memory.py` printed, once in a stock process and once in a sealed one.

    `private_mib` are MiB that no other process shares; `reason` says why a process was not sealed.
    """

    stock_mib: float
    sealed_mib: float
    reason: str | None
    skipped: dict[str, str]


@dataclass(frozen=True)
class Installation:
    """How one way of installing pasture went; `failure` is None where it went well."""

    failure: str | None = None
    memory: Memory | None = None

    @property
    def word(self) -> str:
        """One cell of the matrix."""
        if self.memory is None:
            return "fails"
        return "refused" if self.memory.reason else "seals"


@dataclass(frozen=True)
class Outcome:
    """All that is known of one build of CPython.

    Attributes:
        name: of the build.
        absent: why there is no such interpreter here; None if there is one.
        facts: what the interpreter says of itself.
        source, wheel: the two ways of installing; None for a wheel that is not there.
        native: passed, failed and skipped tests; None where they could not be run.
    """

    name: str
    absent: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    source: Installation | None = None
    wheel: Installation | None = None
    native: tuple[int, int, int] | None = None


class TrialError(Exception):
    """A step failed; its message is the last line that the program wrote."""


def run(*command: str | Path, timeout_s: float | None = 600) -> str:
    """Standard output of a command.

    Raises:
        TrialError: it failed.
    """
    try:
        done = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, timeout=timeout_s, env=_ENV
        )
    except subprocess.TimeoutExpired:
        raise TrialError(f"did not end within {timeout_s} s") from None
    if done.returncode != 0:
        raise TrialError(last_words(done.stderr) or last_words(done.stdout) or "no output")
    return done.stdout


def last_words(text: str) -> str:
    """The line that says most of why a program failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
    return (errors or lines or [""])[-1 if not errors else 0]


def uv(*words: str | Path) -> str:
    return run(REPOSITORY / "tools" / "uv", *words)


def environment(python: Path, folder: Path, *words: str | Path) -> Path:
    """A fresh environment with what the tests need, and pasture as `words` for uv say.

    Returns the path of its interpreter.
    """
    shutil.rmtree(folder, ignore_errors=True)
    uv("venv", "--quiet", "--python", python, folder)
    inside = folder / "bin" / "python"
    install = ("pip", "install", "--quiet", "--python", inside)
    uv(*install, *NEEDED)
    uv(*install, "--no-deps", *words)
    return inside


def from_source(python: Path, name: str) -> Path:
    """Compiled for this very build. The setting keeps uv from taking what it built for another."""
    setting = ("--config-setting", f"cmake.define.PASTURE_INTERPRETER={name}")
    return environment(python, FOLDER / name / "source", *setting, ".")


def wheel_for(minor: str) -> Path | None:
    """The wheel of this minor version for x86-64 and glibc, if `make wheels` made one."""
    tag = f"cp{minor.replace('.', '')}"
    return next(iter(sorted(WHEELS.glob(f"pasture-*-{tag}-{tag}-manylinux*_x86_64.whl"))), None)


def child_memory(python: Path) -> Memory:
    """Raises:
    TrialError: the interpreter or the child did not come to its end.
    """
    stock, sealed = (json.loads(run(python, PROGRAM, how)) for how in ("stock", "sealed"))
    return Memory(stock["private_mib"], sealed["private_mib"], sealed["reason"], sealed["skipped"])


def native_tests(python: Path, name: str) -> tuple[int, int, int] | None:
    """Passed, failed and skipped; None if they did not come to their end (native.log says why)."""
    results = FOLDER / name / "native.xml"
    results.unlink(missing_ok=True)
    paths = [path for path in TESTS if (REPOSITORY / path).exists()]
    command: Sequence[str | Path] = (python, "-m", "pytest", "-q", *paths)
    limit = ("timeout", str(NATIVE_TIME_LIMIT_S))
    with (FOLDER / name / "native.log").open("w") as log:
        subprocess.run(
            [*limit, *command, f"--junit-xml={results}"], cwd=REPOSITORY, stdout=log, stderr=log
        )
    if not results.exists():
        return None
    suite = next(ElementTree.parse(results).iter("testsuite")).attrib
    failed = int(suite["failures"]) + int(suite["errors"])
    skipped = int(suite["skipped"])
    return int(suite["tests"]) - failed - skipped, failed, skipped


def tried(installed: Path) -> Installation:
    try:
        return Installation(memory=child_memory(installed))
    except TrialError as error:
        return Installation(failure=f"installed, but: {error}")


def try_source(python: Path, name: str) -> Installation:
    try:
        return tried(from_source(python, name))
    except TrialError as error:
        return Installation(failure=str(error))


def try_wheel(python: Path, name: str, minor: str) -> Installation | None:
    """None if there is no wheel for this minor version."""
    wheel = wheel_for(minor)
    if wheel is None:
        return None
    try:
        return tried(environment(python, FOLDER / name / "wheel", wheel))
    except TrialError as error:
        return Installation(failure=str(error))


def obtain(name: str) -> tuple[Path, dict[str, Any]]:
    """The interpreter, and what it says of itself.

    Raises:
        TrialError: it is not to be had here.
    """
    python = run(REPOSITORY / "tools" / "builds", "path", name, timeout_s=None).strip()
    return Path(python), json.loads(run(python, "-I", "-c", ASK))


def complete(outcome: Outcome, minor: str, ways: Sequence[str], with_tests: bool) -> Outcome:
    """The outcome with what is not known yet: installations by `ways`, and the native tests."""
    name = outcome.name
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    try:
        python, facts = obtain(name)
    except TrialError as error:
        return Outcome(name, absent=str(error).removeprefix("error: "))
    source, wheel, native = outcome.source, outcome.wheel, outcome.native
    if source is None and "source" in ways:
        source = try_source(python, name)
    if wheel is None and "wheel" in ways:
        wheel = try_wheel(python, name, minor)
    if native is None and with_tests and source is not None and source.word == "seals":
        native = native_tests(FOLDER / name / "source" / "bin" / "python", name)
    return Outcome(name, None, facts, source, wheel, native)
