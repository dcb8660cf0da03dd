"""What no message may make a process do: signal a stranger, or grow."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

MAX_GROWN_BYTES = 4 << 20


class Violation(BaseException):
    """No `except Exception` of the code under test may hide it."""


class Guard:
    """Signals and size of this process.

    Attributes:
        signals: number of those that were asked for. None is sent.
    """

    def __init__(self) -> None:
        self.signals = 0
        self._size = 0
        self._files = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside of it signals are checked instead of sent."""
        refuse = mock.Mock(side_effect=Violation("a signal to a group or by another way"))
        with (
            mock.patch.object(os, "kill", self._kill),
            mock.patch.object(os, "killpg", refuse),
            mock.patch.object(signal, "pidfd_send_signal", refuse),
        ):
            yield

    def _kill(self, pid: Any, number: Any) -> None:
        if type(pid) is not int or not is_own_child(pid):
            if number == 0:
                raise ProcessLookupError  # a question, not a signal
            raise Violation(f"signal {number} to {pid!r}, which is no child of this process")
        self.signals += number != 0

    def note_size(self) -> None:
        self._size, self._files = settled_bytes(), open_files()

    def check_size(self) -> int:
        """Bytes of private memory more than at `note_size`.

        Raises:
            Violation: it is too much, or files are open that were not.
        """
        grown_bytes, more_files = settled_bytes() - self._size, open_files() - self._files
        if grown_bytes > MAX_GROWN_BYTES or more_files > 0:
            raise Violation(f"{grown_bytes:,} bytes and {more_files} open files more")
        return grown_bytes


def is_own_child(pid: int) -> bool:
    """Whether the kernel calls it a child of this process that nothing has waited for."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (OSError, OverflowError):
        return False
    return pid > 1


def settled_bytes() -> int:
    """Private memory of this process without garbage, free heap, and the stack.

    Deep recursion touches the stack once for all.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    total, on_stack = 0, False
    for line in Path("/proc/self/smaps").read_text(errors="replace").splitlines():
        name, _, rest = line.partition(":")
        if "-" in name:
            on_stack = line.endswith("[stack]")
        elif name == "Anonymous" and not on_stack:
            total += int(rest.split()[0]) * 1024
    return total


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
