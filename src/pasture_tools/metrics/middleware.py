"""The figures of a server from one of its own workers: a WSGI middleware.

    application = pasture_tools.metrics.middleware.Metrics(application)

answers `/metrics`. Any worker can answer, because all workers see the same scoreboard. Restrict
access to the path: every client that reaches it can read it. A reading takes milliseconds for each
worker, so a worker reads at most once in a few seconds.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from pasture.scoreboard.layout import Snapshot
from pasture.scoreboard.reader import read_scoreboard
from pasture.scoreboard.recorder import recorder
from pasture_tools.metrics.exporter import ServerCollector

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest  # isort: skip

KEPT_S = 5.0
"""How long a worker's reading answers further requests."""

Application = Callable[..., Iterable[bytes]]


class Metrics:
    """A WSGI application that answers one path and passes the rest on.

    Args:
        path: the path to answer, without the script's name.
        kept_s: seconds for which a reading answers further requests.
    """

    def __init__(
        self, application: Application, path: str = "/metrics", kept_s: float = KEPT_S
    ) -> None:
        self._application = application
        self._path = path
        self._kept_s = kept_s
        self._pid = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ.get("PATH_INFO") != self._path:
            return self._application(environ, start_response)
        body = self._text()
        headers = [("Content-Type", CONTENT_TYPE_LATEST), ("Content-Length", str(len(body)))]
        start_response("200 OK", headers)
        return [body]

    def _text(self) -> bytes:
        """The latest reading. If it is too old, one thread at a time reads again."""
        if self._pid != os.getpid():  # the parent's reading is of another tree
            self._lock, self._body, self._read_at = threading.Lock(), b"", float("-inf")
            self._registry = registry_of(os.getppid(), _read)
            self._pid = os.getpid()
        with self._lock:
            if time.monotonic() - self._read_at >= self._kept_s:
                self._body = generate_latest(self._registry)
                self._read_at = time.monotonic()
            return self._body


def registry_of(
    master_pid: int, read: Callable[[int], Snapshot | None] = read_scoreboard
) -> CollectorRegistry:
    """A registry with only the figures of one server; `read` returns its scoreboard."""
    registry = CollectorRegistry()
    registry.register(ServerCollector(master_pid, read))
    return registry


def _read(master_pid: int) -> Snapshot | None:
    """The scoreboard that this worker inherited. The master's own is closed to other users."""
    return recorder.snapshot() or read_scoreboard(master_pid)
