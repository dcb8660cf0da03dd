"""Unix sockets: the process at the other end, and what it sent before its end.

Source: unix(7).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import TypeVar

_CREDENTIALS = struct.Struct("3i")
T = TypeVar("T")


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Pid and user of the process that made the other end, from the kernel."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(raw)
    return pid, user


def past_reset(receive: Callable[[], T]) -> T:
    """The result of `receive`, of a socket that keeps the bounds of messages.

    If the other end closed with an unread message, the kernel first reports a reset, and then gives
    what that end has sent.
    """
    try:
        return receive()
    except ConnectionResetError:
        return receive()
