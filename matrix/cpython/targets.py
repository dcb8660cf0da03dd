"""An interpreter under test, and running one module of CPython's tests on it.

Results and output of each run stay below build/cpython-tests; whatever else a test
leaves, files and processes, goes when its run ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from outcomes import ModuleRun, read_outcomes

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
BUILD = REPOSITORY / "build" / "cpython-tests"
GRACE_S = 60
"""Beyond the time limit, for the child to print where it hangs, and to end."""


@dataclass(frozen=True, slots=True)
class Target:
    """An interpreter under test, with pasture installed for it in `site`."""

    name: str
    python: Path
    site: Path
    seconds: int
    warm: bool
    debug_build: bool

    @property
    def home(self) -> Path:
        """Where what its runs leave behind is put."""
        return self.site.parent


def find_target(minor: str, debug_build: bool, seconds: int, warm: bool) -> Target:
    extras = ["testsuite", "dbg"] if debug_build else ["testsuite"]
    for extra in extras:  # the last one names the interpreter
        command = [str(REPOSITORY / "tools/interpreters"), "path", minor, "--with", extra]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise click.ClickException(f"no CPython {minor} with its tests can be had here")
    name = f"{minor}-dbg" if debug_build else minor
    python, site = Path(done.stdout.strip()), BUILD / name / "site"
    target = Target(name, python, site, seconds, warm, debug_build)
    install(target)
    return target


def find_own_tests(minor: str, seconds: int, home: Path, check_build: bool = False) -> Target:
    """The interpreter with its tests, wherever these come from. pasture's place is in `home`."""
    name = f"{minor}-check" if check_build else minor
    tool = str(REPOSITORY / "tools/interpreters")
    for words in (["path", minor, "--with", "testsuite"], ["path", minor]):
        done = subprocess.run(
            [tool, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if done.returncode == 0:
            path = Path(done.stdout.strip())
            return Target(name, path, home / name / "site", seconds, False, check_build)
    raise click.ClickException(f"no CPython {minor} with its tests can be had here")


def install_once(target: Target, digest: str) -> None:
    """Build pasture for the interpreter, unless what `digest` names has been built already."""
    stamp = target.site / "digest"
    if not stamp.exists() or stamp.read_text() != digest:
        install(target)
        stamp.write_text(digest)


@contextlib.contextmanager
def taken(home: Path) -> Iterator[None]:
    """No other process runs modules below `home` meanwhile."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.ClickException(
                f"another comparison is running in {home}; --minutes 0 shows what it has so far"
            ) from None
        yield


def install(target: Target) -> None:
    """Build pasture for the interpreter the way users get it: its flags, no editing.

    For a debug build with the verifier, which walks the heap after every change.
    """
    shutil.rmtree(target.site, ignore_errors=True)
    command = [str(REPOSITORY / "tools/uv"), "pip", "install", "--quiet", "--no-deps"]
    command += ["--python", str(target.python), "--target", str(target.site)]
    command += ["--reinstall", "--refresh-package", "pasture", str(REPOSITORY)]
    if target.debug_build:
        command += ["--config-settings", "cmake.define.PASTURE_CHECK=ON"]
    if subprocess.run(command).returncode != 0:
        raise click.ClickException(f"pasture cannot be built for CPython {target.name}")


def run_module(target: Target, module: str, kind: str) -> ModuleRun:
    """Run one module. `kind` is "plain" or begins with "sealed", and names the files left."""
    words = ["--sealed"] * kind.startswith("sealed") + ["--warm"] * target.warm
    return run_program(target, module, kind, words, target.seconds * (2 if target.warm else 1))


def run_program(
    target: Target, module: str, kind: str, words: Sequence[str], limit_s: int
) -> ModuleRun:
    """Run one module with these words for module_program.py. `kind` names the files left."""
    results = target.home / f"{module}.{kind}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    command = [str(target.python), str(HERE / "module_program.py"), str(results), module]
    command += [str(limit_s), "--site", str(target.site), *words]
    start, processor_s = time.monotonic(), processor_time_of_children()
    with tempfile.TemporaryDirectory(prefix="pasture-", ignore_cleanup_errors=True) as scratch:
        exit_code = run_bounded(command, Path(scratch), results.with_suffix(".log"), limit_s)
    seconds = time.monotonic() - start
    processor_s = processor_time_of_children() - processor_s
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    outcomes, events = read_outcomes(lines)
    finished = "finished" in events
    too_long = seconds >= limit_s and not finished
    return ModuleRun(module, outcomes, finished, exit_code, seconds, events, too_long, processor_s)


def processor_time_of_children() -> float:
    """Seconds, user and system, of all that this process, and they, have waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_bounded(command: list[str], scratch: Path, log: Path, limit_s: int) -> int:
    """Run in a session of its own and leave nothing of it behind. Returns the exit code."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(scratch), "LANG": "C.UTF-8"}
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=scratch,
            env={**environment, "TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(limit_s + GRACE_S)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            with_session(process.pid, signal.SIGKILL)
            process.wait()


def with_session(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        pass
