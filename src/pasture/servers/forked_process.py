"""Processes of `multiprocessing` that are forked where a server's parent would spawn them.

Owns the fork, that the worker finds its signals as a spawned one would, and how long its parent
waits before it terminates it. For servers whose parent has no more to hide from its workers than
handlers of signals. Invariant: a worker answers
signals as a new interpreter does until its own code says otherwise.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkContext, ForkProcess
from typing import Any

_RESET = (signal.SIGTERM, signal.SIGHUP)


class Forking(ForkContext):
    """A context of multiprocessing that forks, and does something before each fork.

    Args:
        before_fork: called in the parent. What it raises, the start of the process raises.
        ends_within_s: for a parent that asks all workers to end, and terminates the rest when the
            first has ended. So long may they take from that moment on.
    """

    def __init__(self, before_fork: Callable[[], object], ends_within_s: float = 0.0) -> None:
        self._before_fork = before_fork
        self._ends_within_s = ends_within_s
        self._ends_at: float | None = None

    def Process(self, *arguments: Any, **named: Any) -> Worker:  # type: ignore[override]  # noqa: N802
        """A process that is not started yet."""
        worker = Worker(*arguments, **named)
        worker.before_fork, worker.until_the_end_s = self._before_fork, self._until_the_end_s
        return worker

    def _until_the_end_s(self) -> float:
        now = time.monotonic()
        if self._ends_at is None:
            self._ends_at = now + self._ends_within_s
        return max(0.0, self._ends_at - now)


class Worker(ForkProcess):
    """A process that is forked. It ends as any other of multiprocessing's."""

    before_fork: Callable[[], object]
    until_the_end_s: Callable[[], float]

    def terminate(self) -> None:
        """End it, once the time that it has for ending by itself is over."""
        self.join(self.until_the_end_s())
        super().terminate()

    def start(self) -> None:
        """Fork. A signal that comes to the worker in between is lost to neither."""
        self.before_fork()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _RESET)
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def run(self) -> None:
        """Be the worker."""
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _RESET)
        super().run()
