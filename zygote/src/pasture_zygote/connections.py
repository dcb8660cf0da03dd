"""The clients of a server: accepted, heard once, and let go. Knows nothing of zygotes.

Waits for none of them: a client that says nothing is closed. Invariant: whatever a client does,
the next one is heard.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Callable

from pasture_zygote import protocol

BACKLOG = 1024
MAX_SILENCE_S = 2.0
MAX_CLIENTS = 256
_PAUSE_S = 0.2
_NONE_THERE = (errno.EAGAIN, errno.ECONNABORTED, errno.EINTR, errno.EPROTO)

Hear = Callable[[socket.socket, bytes], None]


class Connections:
    """Connections that are expected to say something."""

    def __init__(
        self, listener: socket.socket, selector: selectors.BaseSelector, hear: Hear
    ) -> None:
        """Listen.

        Args:
            listener: bound, of SOCK_SEQPACKET.
            selector: its events lead to functions without arguments.
            hear: gets a connection that is its own from then on, with the first message.
        """
        self._listener, self._selector, self._hear = listener, selector, hear
        self._since: dict[socket.socket, float] = {}
        self._spare = _spare_descriptor()
        self._paused_until = 0.0
        listener.listen(BACKLOG)  # also where systemd has: peers then see this process
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Let go of all, and listen no more."""
        for connection in list(self._since):
            self._forget(connection)
            connection.close()
        self._listener.close()

    def expect(self, connection: socket.socket, hear: Hear) -> None:
        """Wait for another message; the connection is closed if none comes."""
        connection.setblocking(False)
        self._since[connection] = time.monotonic()
        self._selector.register(
            connection, selectors.EVENT_READ, lambda: self._receive(connection, hear)
        )

    def tend(self) -> None:
        """Close those that were silent for long; listen again after a shortage."""
        now = time.monotonic()
        for connection in [c for c, since in self._since.items() if since < now - MAX_SILENCE_S]:
            self._forget(connection)
            connection.close()
        if self._spare < 0:
            self._spare = _spare_descriptor()
        if self._paused_until and self._paused_until <= now:
            self._paused_until = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno not in _NONE_THERE:
                self._refuse()
            return
        if len(self._since) >= MAX_CLIENTS:
            connection.close()
        else:
            self.expect(connection, self._hear)

    def _refuse(self) -> None:
        """Without descriptors: close the client's connection, so that it need not wait.

        A spare one makes that possible. Without it the listener would be ready all the time.
        """
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
            try:
                self._listener.accept()[0].close()
                self._spare = _spare_descriptor()
                return
            except OSError:
                self._spare = _spare_descriptor()
        self._selector.unregister(self._listener)
        self._paused_until = time.monotonic() + _PAUSE_S

    def _receive(self, connection: socket.socket, hear: Hear) -> None:
        self._forget(connection)
        try:
            message = protocol.receive(connection)
        except (OSError, ValueError):
            connection.close()
            return
        hear(connection, message)

    def _forget(self, connection: socket.socket) -> None:
        self._since.pop(connection, None)
        self._selector.unregister(connection)


def _spare_descriptor() -> int:
    try:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
