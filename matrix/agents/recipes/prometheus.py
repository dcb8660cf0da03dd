"""prometheus_client with its HTTP server, which a thread serves."""

from __future__ import annotations

import os
from collections.abc import Callable

import prometheus_client
from prometheus_client import multiprocess

marks = prometheus_client.Counter("marks", "Requests", ["mark"])


def start() -> None:
    registry = prometheus_client.REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = prometheus_client.CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    port = int(os.environ["SCRAPED_PORT"])
    prometheus_client.start_http_server(port, addr="127.0.0.1", registry=registry)


def report(mark: Callable[[str], str]) -> None:
    marks.labels(mark("metric")).inc()
