"""Signals that end a command which has processes to end first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that is set by what ends a command: Ctrl-C, kill, a closed terminal.

    The handler only sets it; what runs looks at it wherever it waits, and ends its
    processes before it lets go. A second signal so cannot cut that short.
    """
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def pausing(stop: threading.Event) -> Callable[[float], None]:
    """A pause of so many seconds that raises KeyboardInterrupt once a signal has come."""

    def pause(seconds: float) -> None:
        if stop.wait(seconds):
            raise KeyboardInterrupt

    return pause
