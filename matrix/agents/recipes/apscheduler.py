"""APScheduler's scheduler in a thread; its job sends a mark of the process that runs it."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable

from apscheduler.schedulers.background import BackgroundScheduler

numbers = itertools.count()


def job() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        text = f"mark-job-{os.getpid()}-{next(numbers)}-"
        sender.sendto(text.encode(), ("127.0.0.1", int(os.environ["SINK_UDP_PORT"])))


def start() -> None:
    scheduler = BackgroundScheduler()
    scheduler.add_job(job, "interval", seconds=0.5)
    scheduler.start()


def report(mark: Callable[[str], str]) -> None:
    """Jobs come by the clock."""
