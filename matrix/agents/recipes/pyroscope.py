"""Pyroscope's profiler. A mark a process: it is in the name of each profile that is sent."""

from __future__ import annotations

import os
from collections.abc import Callable

import pyroscope


def start() -> None:
    pyroscope.configure(
        application_name="marks",
        server_address=f"http://127.0.0.1:{os.environ['SINK_PORT']}",
        tags={"process": f"mark-profile-{os.getpid()}-0-"},
        oncpu=False,
    )


def report(mark: Callable[[str], str]) -> None:
    """Samples come by the clock."""
