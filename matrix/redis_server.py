"""A Redis of a benchmark's own, on loopback, which ends with its block."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matrix.environments import REPOSITORY
from pasture.launch.ports import free_port, listens
from pasture.launch.session import Group

TIMEOUT_S = 60.0


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Start it; gives its address.

    Raises:
        ServerFailed: it does not start.
        subprocess.CalledProcessError: it is not to be had.
    """
    found = subprocess.run(
        [REPOSITORY / "tools" / "services", "redis-server"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with Group([found.stdout.strip(), *options], log=folder / "redis.log") as group:
        group.wait_for(lambda: listens(port), "Redis does not listen", timeout_s=TIMEOUT_S)
        yield f"redis://127.0.0.1:{port}/0"
