"""A program in a session of its own, so that it and all it forks can be ended for certain.

Owns starting, signalling and ending; knows nothing of servers or loads. Invariant: when
`end()` or the `with` block returns, no process of the session runs any more, nor one that
left it as a daemon does: those are found by a variable in their environment.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pasture.errors import ServerFailed
from pasture.observe import tree

_MARK = "PASTURE_GROUP"
_POLITE_S = 2.0
_KILL_S = 10.0
_POLL_S = 0.02


class Group:
    """A running program, its descendants, and the file that takes what they print.

    Start it in a `with` statement: an exception inside ends all of it.
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
            ServerFailed: the program cannot be executed.
        """
        self.log = log
        self._mark = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._strays: set[int] = set()
        environment = {**(os.environ if env is None else env), _MARK: self._mark}
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    cwd=cwd,
                    start_new_session=True,
                )
        except OSError as error:
            raise ServerFailed(f"cannot run {command[0]}: {error}", hint="check its path") from None

    @property
    def pid(self) -> int:
        """The program's pid, which is also the id of its session and process group."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def exit_code(self) -> int | None:
        """The program's exit code (negative: the signal), None while it runs."""
        return self._process.poll()

    def members(self) -> tuple[int, ...]:
        """Pids of all processes of the session that still run."""
        self._process.poll()  # reaps the program, which would stay a zombie
        return tree.session_members(self.pid)

    def terminate(self) -> None:
        """Send SIGTERM to the program alone, as a service manager would."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def end(self) -> None:
        """End every process of the session and its strays: SIGTERM first, then SIGKILL.

        Raises:
            ServerFailed: a process survived SIGKILL (it hangs in the kernel).
        """
        self._signal_all(signal.SIGTERM)
        if not self._wait_until_empty(_POLITE_S):
            self._kill_what_is_left()

    def _kill_what_is_left(self) -> None:
        deadline = time.monotonic() + _KILL_S
        while left := self._left():
            self._signal_all(signal.SIGKILL)
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"processes {', '.join(map(str, left))} do not end",
                    hint="they hang in the kernel; look at their state with ps",
                )
            time.sleep(_POLL_S)

    def _wait_until_empty(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self._left():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _left(self) -> tuple[int, ...]:
        """Pids of what has not ended yet, to be waited for."""
        found = self._found()
        # A process that ends has no environment any more while it gives its memory back.
        return found or tuple(pid for pid in self._strays if tree.is_running(pid))

    def _found(self) -> tuple[int, ...]:
        """The session's members, or once there are none, strays that left it.

        Only these are sent signals: a pid from earlier may be another process by now.
        """
        members = self.members()
        if members:
            return members
        strays = tree.processes_with(_MARK, self._mark)
        self._strays.update(strays)
        return strays

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in self._found():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
