"""Runs of a package's tests: plain and sealed, whole or of some tests alone.

Plain is the same as sealed, in a forked child as well, except for the call of `pasture.seal()`:
differences are the seal's alone. Events and output of each run stay in build/packages/runs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from catalog import Package
from environments import BUILD, HERE, Environment
from outcomes import ModuleRun, read_outcomes
from targets import run_bounded

from matrix.redis_server import redis_server

TESTS_FAILED = 1

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""No other thread may run while a process is sealed."""

SETTINGS = ("addopts=", "faulthandler_timeout=0")
"""Instead of the package's own: what asks for plugins and reports, and another use of the one
timer that faulthandler has. The rest of its settings are kept."""

SAME_EACH_TIME = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def run_tests(
    package: Package, environment: Environment, kind: str, only: Sequence[str] = ()
) -> ModuleRun:
    """Run the tests of a package once.

    Args:
        kind: "plain" or "sealed", with anything behind it that distinguishes runs.
        only: ids of tests to run instead of all.
    """
    results = BUILD / "runs" / f"{package.name}.{kind}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pasture-", ignore_cleanup_errors=True) as scratch:
        command = [*prefix(package, environment, scratch), str(environment.python), "-B"]
        command += arguments(package, environment, results, kind.startswith("sealed"), only)
        with redis_server(Path(scratch)) if package.redis else nullcontext("") as redis:
            command += [package.redis.format(redis)] * bool(redis)
            exit_code = run_bounded(
                command, Path(scratch), results.with_suffix(".log"), package.seconds
            )
    if package.tests_fork and exit_code == TESTS_FAILED:
        exit_code = 0  # as of a child
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    outcomes, events = read_outcomes(lines)
    finished, seconds = "finished" in events, time.monotonic() - start
    return ModuleRun(package.name, outcomes, finished, exit_code, seconds, events)


def prefix(package: Package, environment: Environment, scratch: str) -> list[str]:
    """The command `env` with the folder and the variables of a run."""
    paths = {"PYTHONPATH": str(HERE / "inside")}
    if package.runner == "django":
        paths["PYTHONPATH"] += f":{HERE.parent / 'cpython'}"  # for its recorder
    variables = {**ONE_THREAD, **SAME_EACH_TIME, **paths, **package.environment}
    folder = environment.root if package.source == "sdist" else scratch
    return ["env", f"--chdir={folder}", *(f"{name}={value}" for name, value in variables.items())]


def arguments(
    package: Package, environment: Environment, results: Path, sealed: bool, only: Sequence[str]
) -> list[str]:
    words = ["--events", str(results), "--seconds", str(package.seconds), *["--seal"] * sealed]
    words += ["--tests-fork"] * package.tests_fork
    if package.runner == "django":
        program = [str(HERE / "inside" / "django_sealed_child.py"), *words, "tests/runtests.py"]
        return [*program, *package.arguments, *(only or package.tests)]
    words += ["-q", "--continue-on-collection-errors", "-p", "no:cacheprovider"]
    for option in SETTINGS:
        words += ["-o", option]
    words += [f"--rootdir={environment.root}"]
    if package.source == "wheel":
        words += ["-c", "/dev/null"]
    for each in package.left_out:
        is_test = "::" in each
        words.append(f"--deselect={each}" if is_test else f"--ignore={environment.root / each}")
    tests = [str(environment.root / each) for each in only or package.tests]
    return ["-m", "pytest", "-p", "pytest_sealed_child", *words, *package.arguments, *tests]
