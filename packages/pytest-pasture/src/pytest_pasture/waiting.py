"""A process that waits for runs of pytest at its socket, and forks one for each that it can serve.

The process itself runs nothing. It takes no more runs once one came that it cannot serve, once it
was asked to end, or once none has come for too long; it ends after the last one.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from pytest_pasture import keep
from pytest_pasture.control import Channel, Hello, Kept, Stop, Unfit

_MESSAGE_LIMIT_S = 5.0
_DESCRIPTORS = 2  # of a greeting

Run = tuple[Hello, list[int]]
"""A greeting, and the descriptors that came with it."""


class Waiting:
    """The loop, and the processes of its runs.

    Args:
        against: why a run cannot be served.
    """

    def __init__(
        self, listener: socket.socket, limit_s: float, against: Callable[[Hello], str | None]
    ) -> None:
        self._listener: socket.socket | None = listener
        self._limit_s = limit_s
        self._against = against
        self._processes: dict[int, int] = {}  # by descriptor, the pid of a run

    def serve(self) -> Run | None:
        """Returns in the process of each run; at the end, here, None."""
        used = time.monotonic()
        while self._listener is not None or self._processes:
            ready = self._ready(used)
            if not ready:
                self._take_no_more()
            elif self._listener is not None and self._listener.fileno() in ready:
                if (run := self._greeted(self._listener)) is not None:
                    return run
            for descriptor in ready & self._processes.keys():
                os.waitpid(self._processes.pop(descriptor), 0)
                os.close(descriptor)
            used = time.monotonic()
        return None

    def fork(self) -> int:
        """The pid of a run's process; 0 there, where nothing of this one is left open.

        Raises:
            OSError: the system refuses a process.
        """
        if pid := os.fork():
            self._processes[os.pidfd_open(pid)] = pid
            return pid
        self._take_no_more()
        for descriptor in self._processes:
            os.close(descriptor)
        self._processes.clear()
        return 0

    def _ready(self, used: float) -> set[int]:
        poll = select.poll()
        for descriptor in self._processes:
            poll.register(descriptor, select.POLLIN)
        if self._listener is not None:
            poll.register(self._listener, select.POLLIN)
        left_s = max(0.0, used + self._limit_s - time.monotonic())
        return {one for one, _ in poll.poll(None if self._processes else left_s * 1000)}

    def _greeted(self, listener: socket.socket) -> Run | None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(_MESSAGE_LIMIT_S)
            channel = Channel(connection)
            hello = channel.receive() if keep.is_own_user(connection) else None
            descriptors = channel.descriptors
            answer: Kept | Unfit | None = None
            if isinstance(hello, Stop):
                answer = Unfit("it was asked to end")
            elif isinstance(hello, Hello) and len(descriptors) == _DESCRIPTORS:
                if reason := self._against(hello):
                    answer = Unfit(reason)
                else:
                    try:
                        if not (pid := self.fork()):
                            return hello, descriptors
                        answer = Kept(pid)
                    except OSError as error:
                        answer = Unfit(f"it cannot fork: {error.strerror}")
            if isinstance(answer, Unfit):
                self._take_no_more()
            if answer is not None:
                with suppress(OSError):  # the other end is gone
                    channel.send(answer)
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _take_no_more(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
