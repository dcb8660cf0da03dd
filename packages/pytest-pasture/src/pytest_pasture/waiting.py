"""A process that waits for runs of pytest at its place, and forks one for each that it can serve.

The process itself runs nothing. It takes no more runs once one came that it cannot serve, once it
was asked to end, or once none has come for too long; it ends after the last one.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from pytest_pasture import keep
from pytest_pasture.control import Channel, Ended, Hello, Kept, Signal, Stop, Unfit

_MESSAGE_LIMIT_S = 5.0

Run = tuple[Hello, list[int]]
"""What came with it: its greeting and descriptors."""


class _Process:
    """Of a run, seen from above."""

    channel: Channel | None = None  # to the process that a user has started, where it is watched
    is_watched = False  # that process is there

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)


class Waiting:
    """Its loop, and the processes of its runs.

    Args:
        descriptors: how many a greeting brings.
        against: why a run cannot be served.
        watches: processes of runs are groups of their own, and a run has the signals and ends with
            the process that a user has started.
    """

    def __init__(
        self,
        listener: socket.socket,
        limit_s: float,
        descriptors: int,
        against: Callable[[Hello], str | None],
        *,
        watches: bool = False,
    ) -> None:
        self._listener: socket.socket | None = listener
        self._limit_s = limit_s
        self._descriptors = descriptors
        self._against = against
        self._watches = watches
        self._processes: list[_Process] = []

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
            for one in list(self._processes):
                if one.descriptor in ready:
                    self._reap(one)
                elif one.channel is not None and one.channel.socket.fileno() in ready:
                    _pass_on(one, one.channel)
            used = time.monotonic()
        return None

    def fork(self, channel: Channel | None = None) -> bool:
        """Whether this is the process that waits, and not that of a run.

        Raises:
            OSError: there can be none, and no channel to say so.
        """
        try:
            pid = os.fork()
        except OSError as error:
            if channel is None:
                raise
            _send(channel, Unfit(f"it cannot fork: {error.strerror}"))
            channel.close()
            return True
        if not pid:
            self._leave()
            return False
        if self._watches:
            with suppress(OSError):  # in the child too: a signal for the group may come at once
                os.setpgid(pid, pid)
        process = _Process(pid)
        self._processes.append(process)
        if channel is not None:
            _send(channel, Kept(pid))
            if self._watches:
                process.channel, process.is_watched = channel, True
            else:
                channel.close()
        return True

    def _leave(self) -> None:
        """In the process of a run: have nothing of this one."""
        if self._watches:
            os.setpgid(0, 0)
        self._take_no_more()
        for one in self._processes:
            os.close(one.descriptor)
            if one.channel is not None:
                one.channel.close()
        self._processes.clear()

    def _ready(self, used: float) -> set[int]:
        poll = select.poll()
        for descriptor in self._open():
            poll.register(descriptor, select.POLLIN)
        left_s = max(0.0, used + self._limit_s - time.monotonic())
        return {one for one, _ in poll.poll(None if self._processes else left_s * 1000)}

    def _open(self) -> Iterator[int]:
        if self._listener is not None:
            yield self._listener.fileno()
        for one in self._processes:
            yield one.descriptor
            if one.channel is not None and one.is_watched:
                yield one.channel.socket.fileno()

    def _greeted(self, listener: socket.socket) -> Run | None:
        connection, _ = listener.accept()
        connection.settimeout(_MESSAGE_LIMIT_S)
        channel = Channel(connection)
        hello = channel.receive() if keep.is_own_user(connection) else None
        descriptors = channel.descriptors
        reason = None
        if isinstance(hello, Stop):
            reason = "it was asked to end"
        elif isinstance(hello, Hello) and len(descriptors) == self._descriptors:
            reason = self._against(hello)
            if reason is None and not self.fork(channel):
                connection.close()
                return hello, descriptors
        else:
            channel.close()
        if reason is not None:
            self._take_no_more()
            _send(channel, Unfit(reason))
            channel.close()
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _take_no_more(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _reap(self, one: _Process) -> None:
        _, status = os.waitpid(one.pid, 0)
        if one.channel is not None:
            _send(one.channel, Ended(status))
            one.channel.close()
        os.close(one.descriptor)
        self._processes.remove(one)


def _pass_on(one: _Process, channel: Channel) -> None:
    """A signal from the process that a user has started; all of them once that is gone."""
    message = channel.receive()
    if isinstance(message, Signal):
        number = message.number
    else:
        number, one.is_watched = signal.SIGKILL, False
    with suppress(OSError):  # not waited for yet, so the group is still its own
        os.killpg(one.pid, number)


def _send(channel: Channel, message: Unfit | Kept | Ended) -> None:
    with suppress(OSError):  # the other end is gone
        channel.send(message)
