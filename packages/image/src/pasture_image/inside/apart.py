"""Work in a process forked from the builder, of which only the outcome is left."""

from __future__ import annotations

import marshal
import os
import posix
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from select import select
from time import monotonic
from typing import Any

from pasture.errors import ImageFailed
from pasture.proc.parent import end_with_parent
from pasture_image.inside import variables

_HAS_ENDED = posix.WEXITED | posix.WNOHANG | posix.WNOWAIT
_MIN_TIMEOUT_S = 60.0
_LOOK_S = 1.0
"""How often it is looked at while it says nothing."""


class Apart:
    """A process that waits until it is wanted, and works."""

    def __init__(self, work: Callable[[], bytes], environ: int, close: Iterable[int]) -> None:
        """Fork it.

        Args:
            work: what it does; returns what it has found out, not empty.
            environ: descriptor of the environment that it has (`environment`).
            close: descriptors that are not for it.
        """
        self._reader, writer = os.pipe()
        gate, self._gate = os.pipe()
        parent = os.getpid()
        with suppress(AttributeError, ValueError):  # there is none, or it is closed
            sys.stdout.flush()  # or what modules have printed is printed twice
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.setsid()  # with what it starts it is a group, which ends with it
                end_with_parent(parent)
                for number in (*close, self._reader, self._gate):
                    posix.close(number)
                if not os.read(gate, 1):
                    os._exit(0)
                variables.fill_in(environ)
                posix.close(environ)
                posix.close(gate)
            except BaseException as error:  # or it would go on as the builder
                os.write(2, f"another load cannot begin: {error!r}\n".encode())
                os._exit(1)
            _perform(work, writer)
        posix.close(gate)
        posix.close(writer)

    def result(self, timeout_s: float) -> bytes | None:
        """What the work has found out; empty if it failed, None if it takes longer. Ends it."""
        with suppress(OSError):
            os.write(self._gate, b"1")
        try:
            return self._read(monotonic() + timeout_s)
        finally:
            self.end()

    def found(self, load_s: float, what: str) -> Any:
        """What the work has found out, of what marshal can carry; a text says why it is nothing.

        Args:
            load_s: how long a load takes: it may take some times as long.
            what: is wrong if it fails.

        Raises:
            ImageFailed: it failed, or takes longer.
        """
        data = self.result(_MIN_TIMEOUT_S + 5 * load_s)
        found = marshal.loads(data) if data else "see above" if data == b"" else "it takes too long"
        if type(found) is str:
            hint = "build again, or do not preload what has failed"
            raise ImageFailed(f"{what}: {found}", hint=hint)
        return found

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid:
            self.end()

    def end(self) -> None:
        """End it with all that it has started, whatever it does."""
        posix.close(self._reader)
        posix.close(self._gate)
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except ProcessLookupError:  # it had no time to become a group
            os.kill(self._pid, signal.SIGKILL)
        posix.waitpid(self._pid, 0)
        self._pid = 0

    def _read(self, end: float) -> bytes | None:
        """All that comes until it has ended: what it has started may keep its pipe open."""
        found = bytearray()
        while (left := end - monotonic()) > 0:
            has_ended = posix.waitid(posix.P_PID, self._pid, _HAS_ENDED) is not None
            if select([self._reader], [], [], 0 if has_ended else min(left, _LOOK_S))[0]:
                part = os.read(self._reader, 1 << 16)
                if not part:
                    return bytes(found)
                found += part
            elif has_ended:
                return bytes(found)
        return None


def _perform(work: Callable[[], bytes], report_to: int) -> None:
    """In the forked process, which this ends."""
    try:
        os.dup2(2, 1)  # what a program prints goes where the build's messages go
        seen = memoryview(work())
        with suppress(ValueError):  # the program has closed it
            sys.stdout.flush()
        while seen:
            seen = seen[os.write(report_to, seen) :]
        os._exit(0)
    except (ImportError, MemoryError, OSError) as error:  # the system's, or out of its want
        os.write(2, f"another load is left out: {type(error).__name__}: {error}\n".encode())
        os._exit(1)
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
