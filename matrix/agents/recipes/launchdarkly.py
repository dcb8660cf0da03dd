"""LaunchDarkly's client, which polls for flags and sends events.

AGENT_AFTER_FORK=1: `postfork()` is called in each worker, as its documentation says of servers
that fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import ldclient
from ldclient.config import Config

client: Any = None


def start() -> None:
    global client
    sink = f"http://127.0.0.1:{os.environ['SINK_PORT']}"
    config = Config(
        "sdk-key", base_uri=sink, events_uri=sink, stream_uri=sink, stream=False, flush_interval=1
    )
    ldclient.set_config(config)
    client = ldclient.get()
    if os.environ.get("AGENT_AFTER_FORK"):
        os.register_at_fork(after_in_child=client.postfork)


def report(mark: Callable[[str], str]) -> None:
    client.track(mark("event"), ldclient.Context.create("user"))
