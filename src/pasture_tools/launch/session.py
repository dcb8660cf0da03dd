"""A program with all its descendants, which can be reliably ended; its log; and signals.

Owns starting, signalling, waiting and ending. Between this process and the program is a guard
(`reaper`), which adopts every orphan. Invariant: when `end()` or the `with` block
returns, or this process is killed, none of it runs any more, nor does a daemon that left the
program's session.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

from pasture.errors import ServerFailed
from pasture.proc import tree
from pasture.trust import private_files

_GUARD = Path(__file__).with_name("reaper.py")
_POLITE_S = 1.0
_KILL_S = 10.0
_WAIT_S = 60.0
_POLL_S = 0.02
_WAIT_POLL_S = 0.05
_TAIL_LINES = 15
_TRACEBACK = "Traceback (most recent call last):"
_LOOK_S = 1.0
# The last line of a traceback: an exception's dotted name, alone or with a message.
_EXCEPTION_LINE = re.compile(r"[A-Za-z_][\w.]*(: .*)?")


class Group:
    """A running program, its descendants, and the file with their output.

    Start it in a `with` statement: an exception inside ends all of it.

    Attributes:
        log_path: the file.
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
        self.log_path = log
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

    @property
    def log(self) -> str:
        """The output so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def exit_code(self, timeout_s: float = 0.0) -> int | None:
        """The program's exit code (negative: the signal), None while it runs."""
        while self._exit_code is None:
            # A line may have come along with the one before it.
            if b"\n" not in self._said and not select.select((self._report,), (), (), timeout_s)[0]:
                break
            line = self._read_line()
            kind, _, value = line.partition(" ")
            if kind == "exit":
                self._exit_code = int(value)
            elif not line:  # the guard was killed, and so the program by the kernel
                self._exit_code = -signal.SIGKILL
        return self._exit_code

    def members(self) -> tuple[int, ...]:
        """Pids of the program and its descendants, as far as they still run."""
        return tree.descendants(self._guard.pid)

    def wait(self, timeout_s: float = _WAIT_S) -> int:
        """Wait for the end of the program; its exit code. Raises ServerFailed if it still runs."""
        code = self.exit_code(timeout_s)
        if code is None:
            raise self.failure(f"it did not end in {timeout_s:g} s")
        return code

    def wait_for(
        self,
        condition: Callable[[], object],
        what: str,
        *,
        timeout_s: float,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """Wait until a condition holds.

        Args:
            what: the error's text, for a condition that did not hold.
            pause: sleeps for the given seconds; may raise to interrupt the wait.

        Raises:
            ServerFailed: the program ended, or the time is over; the hint has the end of its log.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            code = self.exit_code()
            if code is not None:
                raise self.failure(f"{what}: it ended with exit code {code}")
            if time.monotonic() > deadline:
                raise self.failure(f"{what} in {timeout_s:g} s")
            pause(_WAIT_POLL_S)

    def failure(self, what: str) -> ServerFailed:
        """An error of this program, with the end of its log."""
        return ServerFailed(what, hint="its log ends with\n" + tail(self.log))

    def send_signal(self, number: int) -> None:
        """Send a signal to the program alone, unless it has ended."""
        if self.exit_code() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM to the program alone, as a service manager would."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the program alone."""
        self.send_signal(signal.SIGKILL)

    def end(self, polite_s: float = _POLITE_S) -> None:
        """End the program and all its descendants: SIGTERM first, then SIGKILL.

        Raises:
            ServerFailed: a process survived SIGKILL (it hangs in the kernel).
        """
        if self._report < 0:
            return
        for pid in self.members() if polite_s else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + polite_s
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


def environment(
    added: Mapping[str, str], *, without: tuple[str, ...] = ("PASTURE",)
) -> dict[str, str]:
    """This process's environment with additions, and without a surrounding pasture's variables."""
    return {k: v for k, v in os.environ.items() if not k.startswith(without)} | dict(added)


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
    """Start a guard, which ends with its standard input; returns it and its report's descriptor."""
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


def tail(log: str, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log, indented; a note for an empty one."""
    kept = [line.rstrip() for line in log.splitlines() if line.strip()][-lines:]
    return "\n".join(f"    {line}" for line in kept) or "    (the log is empty)"


def last_exception(log: str) -> str | None:
    """The last line of the last traceback in a log, as in `ValueError: no such thing`.

    Skips gunicorn's tracebacks that only report a failed worker.
    """
    while (found := log.rpartition(_TRACEBACK))[1]:
        lines = found[2].splitlines()
        line = next((line for line in lines if _EXCEPTION_LINE.fullmatch(line)), None)
        if line is None or "HaltServer" not in line:
            return line
        log = found[0]
    return None


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that is set by the signals that end a command: Ctrl-C, kill, a closed terminal.

    The handler only sets it; code checks it wherever it waits, and first ends its processes. So a
    second signal cannot cut that short. If no code checks it for a second, as in a long
    computation, KeyboardInterrupt is raised. In the main thread.
    """
    stop = _Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()
        stop.expect_a_look()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not stop.is_seen:
            stop.is_seen = True
            raise KeyboardInterrupt

    handlers: dict[int, Any] = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), handle)
    handlers[signal.SIGALRM] = interrupt
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    timer = signal.getitimer(signal.ITIMER_REAL)
    try:
        yield stop
    finally:
        stop.is_seen = True
        signal.setitimer(signal.ITIMER_REAL, *timer)
        for number, handler in before.items():
            signal.signal(number, handler)


class _Stop(threading.Event):
    """An event that notes whether code has seen it set.

    Attributes:
        is_seen: seen set, so that the code ends by itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_seen = self._is_timed = False

    def expect_a_look(self) -> None:
        """Request SIGALRM in a second, unless it is requested already."""
        if not self.is_seen and not self._is_timed:
            self._is_timed = True
            signal.setitimer(signal.ITIMER_REAL, _LOOK_S)

    def is_set(self) -> bool:
        return self._noted(super().is_set())

    def wait(self, timeout: float | None = None) -> bool:
        return self._noted(super().wait(timeout))

    def _noted(self, is_set: bool) -> bool:
        self.is_seen = self.is_seen or is_set
        return is_set


def pausing(stop: threading.Event) -> Callable[[float], None]:
    """A pause in seconds that raises KeyboardInterrupt once a signal has arrived."""

    def pause(seconds: float) -> None:
        if stop.wait(seconds):
            raise KeyboardInterrupt

    return pause
