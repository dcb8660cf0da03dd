"""A bounded number of requests, one after the other or from a few threads.

For what is measured between exact numbers of requests; rates are measured by `httperf`. Each
request has a connection of its own.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable

from pasture_tools.launch.ports import LOOPBACK

_TIMEOUT_S = 30.0


def get(port: int, path: str = "/") -> int:
    """Send one request; its status, 0 without an answer."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def burst(port: int, count: int, *, path: str = "/", threads: int = 2) -> int:
    """Send `count` requests; returns how many were not answered with a 200."""
    left = iter(range(count))
    lock = threading.Lock()
    failed = 0

    def run() -> None:
        nonlocal failed
        while True:
            with lock:
                if next(left, None) is None:
                    return
            if get(port, path) != 200:
                with lock:
                    failed += 1

    running = [threading.Thread(target=run, name="pasture-lab-client") for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return failed


class SteadyLoad:
    """Requests at a steady rate from a thread, until the `with` block ends.

    Args:
        rate: requests a second, as far as the server keeps up.
    """

    def __init__(
        self, port: int, rate: float, on_answer: Callable[[], None] = lambda: None
    ) -> None:
        self.answered = self.failed = 0
        self._port, self._rate, self._on_answer = port, rate, on_answer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pasture-lab-load")

    def __enter__(self) -> SteadyLoad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        start = time.monotonic()
        while not self._stop.is_set():
            if get(self._port) == 200:
                self.answered += 1
            else:
                self.failed += 1
            behind = start + (self.answered + self.failed) / self._rate - time.monotonic()
            if behind > 0:
                self._stop.wait(behind)
