"""Ports of the loopback interface."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port of the loopback interface that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def listens(port: int) -> bool:
    """Whether a port of the loopback interface takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
