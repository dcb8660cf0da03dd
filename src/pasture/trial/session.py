"""A program with all that comes of it, so that it can be ended for certain.

Owns starting, signalling and ending; knows nothing of servers or loads. Between this process
and the program stands a guard (`pasture.trial.reaper`) to which every orphan falls. Invariant:
when `end()` or the `with` block returns, or this process is killed, none of it runs any more,
nor does a daemon that left the program's session.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from pasture.errors import ServerFailed
from pasture.proc import tree
from pasture.trust import private_files

_GUARD = Path(__file__).with_name("reaper.py")
_POLITE_S = 2.0
_KILL_S = 10.0
_POLL_S = 0.02


class Group:
    """A running program, its descendants, and the file that takes what they print.

    Start it in a `with` statement: an exception inside ends all of it.

    Attributes:
        log: what they print.
        pid: the program's, which is also the id of its session and process group.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Start a program.

        Raises:
            ServerFailed: the program cannot be executed, or the log not be written.
        """
        self.log = log
        self._exit_code: int | None = None
        self._said = b""
        try:
            with private_files.create(log) as output:
                self._guard, self._report = _start_guard("", command, output, env, cwd)
        except (OSError, ValueError) as error:
            raise ServerFailed(f"cannot run {command[0]}: {error}", hint="check its path") from None
        try:
            self.pid = self._read_pid(command[0])
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def exit_code(self) -> int | None:
        """The program's exit code (negative: the signal), None while it runs."""
        while self._exit_code is None and select.select((self._report,), (), (), 0)[0]:
            line = self._read_line()
            kind, _, value = line.partition(" ")
            if kind == "exit":
                self._exit_code = int(value)
            elif not line:  # the guard was killed, and so the program by the kernel
                self._exit_code = -signal.SIGKILL
        return self._exit_code

    def members(self) -> tuple[int, ...]:
        """Pids of the program and all that came of it, as far as they still run."""
        return tree.descendants(self._guard.pid)

    def terminate(self) -> None:
        """Send SIGTERM to the program alone, as a service manager would."""
        if self.exit_code() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def end(self) -> None:
        """End the program and all that came of it: SIGTERM first, then SIGKILL.

        Raises:
            ServerFailed: a process survived SIGKILL (it hangs in the kernel).
        """
        if self._report < 0:
            return
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _POLITE_S
        while self.members() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self._close()

    def _close(self) -> None:
        """Let the guard kill what is left, and wait for it."""
        try:
            _end_guard(self._guard)
        except subprocess.TimeoutExpired:
            raise ServerFailed(
                f"processes {', '.join(map(str, self.members()))} do not end",
                hint="they hang in the kernel; look at their state with ps",
            ) from None
        if self._report >= 0:
            self.exit_code()
            os.close(self._report)
            self._report = -1

    def _read_pid(self, program: str) -> int:
        kind, _, value = self._read_line().partition(" ")
        if kind != "pid":
            why = value or "its guard ended at once"
            raise ServerFailed(f"cannot run {program}: {why}", hint="check its path")
        return int(value)

    def _read_line(self) -> str:
        """The next line of the guard's report; "" at its end."""
        while b"\n" not in self._said and (part := os.read(self._report, 4096)):
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        return line.decode(errors="replace")


@contextlib.contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """A folder that is removed when the block ends, and when this process is killed in it."""
    try:
        guard, report = _start_guard(str(folder), (), subprocess.DEVNULL, None, None)
    except OSError as error:
        raise ServerFailed(f"cannot run {sys.executable}: {error}", hint="check it") from None
    os.close(report)
    try:
        yield
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            _end_guard(guard)


def _start_guard(
    folder: str,
    command: Sequence[str],
    output: IO[bytes] | int,
    env: Mapping[str, str] | None,
    cwd: Path | None,
) -> tuple[subprocess.Popen[bytes], int]:
    """A guard, which ends when its standard input does, and the descriptor of its report."""
    report, its_end = os.pipe()
    try:
        guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), str(its_end), folder, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=env,
            cwd=cwd,
            start_new_session=True,
            pass_fds=(its_end,),
        )
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(its_end)
    return guard, report


def _end_guard(guard: subprocess.Popen[bytes]) -> None:
    assert guard.stdin is not None
    guard.stdin.close()
    guard.wait(_KILL_S)
