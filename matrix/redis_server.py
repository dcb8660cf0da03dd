"""A Redis of a benchmark's own, on loopback, which ends with its block, and may be restarted."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from matrix.environments import REPOSITORY
from pasture_tools.launch.ports import free_port, listens
from pasture_tools.launch.session import Group

TIMEOUT_S = 60.0


class Redis:
    """One server on one port.

    Raises:
        ServerFailed: it does not start.
        subprocess.CalledProcessError: it is not to be had.
    """

    def __init__(self, folder: Path) -> None:
        found = subprocess.run(
            [REPOSITORY / "tools" / "services", "redis-server"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        self._port, self._log = free_port(), folder / "redis.log"
        options = ["--port", str(self._port), "--bind", "127.0.0.1", "--save", ""]
        self._command = [found.stdout.strip(), *options, "--dir", str(folder)]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self._group = self._started()

    def _started(self) -> Group:
        group = Group(self._command, log=self._log)
        try:
            group.wait_for(
                lambda: listens(self._port), "Redis does not listen", timeout_s=TIMEOUT_S
            )
        except BaseException:
            group.end()
            raise
        return group

    def restart(self) -> None:
        """End it with what it holds saved, and start it again: connections are lost, no data."""
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            connection.sendall(b"SHUTDOWN SAVE\r\n")
            connection.recv(100)
        self._group.wait(TIMEOUT_S)
        self._group.end()
        self._group = self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._group.end()


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Start it; gives its address. Raises what `Redis` does."""
    with Redis(folder) as server:
        yield server.url
