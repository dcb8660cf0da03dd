"""statsd: a datagram a call."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import statsd

client: Any = None


def start() -> None:
    global client
    client = statsd.StatsClient("127.0.0.1", int(os.environ["SINK_UDP_PORT"]))


def report(mark: Callable[[str], str]) -> None:
    client.incr(mark("metric"))
