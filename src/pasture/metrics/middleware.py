"""The figures of a server from one of its own workers: a WSGI middleware.

    application = pasture.metrics.middleware.Metrics(application)

answers `/metrics`, whichever worker the request reaches, because all of them read the same
files. The path is open to whoever reaches the server: guard it as the rest of the site.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pasture.metrics.exporter import ServerCollector
from pasture.metrics.recorder import DIRECTORY
from pasture.servers.environment import REPORT_FILE

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest  # isort: skip

Application = Callable[..., Iterable[bytes]]


class Metrics:
    """A WSGI application that answers one path and hands on the others."""

    def __init__(self, application: Application, path: str = "/metrics") -> None:
        """Wrap an application. Before the fork or after it.

        Args:
            path: that is answered here, without the script's name.
        """
        self._application = application
        self._path = path

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ.get("PATH_INFO") != self._path:
            return self._application(environ, start_response)
        body = generate_latest(registry_of(os.getppid(), os.environ))
        headers = [("Content-Type", CONTENT_TYPE_LATEST), ("Content-Length", str(len(body)))]
        start_response("200 OK", headers)
        return [body]


def registry_of(master_pid: int, environ: Any) -> CollectorRegistry:
    """A registry with the figures of one server alone.

    Args:
        environ: the server's variables, which say where it writes.
    """
    registry = CollectorRegistry()
    paths = [
        Path(environ[name]) if environ.get(name) else None for name in (DIRECTORY, REPORT_FILE)
    ]
    registry.register(ServerCollector(master_pid, *paths))
    return registry
