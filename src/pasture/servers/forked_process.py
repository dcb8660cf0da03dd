"""Processes of `multiprocessing` that are forked where a server's parent would spawn them.

Owns the fork, and that the worker finds its signals as a spawned one would. For servers whose
parent has no more to hide from its workers than handlers of signals. Invariant: a worker answers
signals as a new interpreter does until its own code says otherwise.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from multiprocessing.context import ForkContext, ForkProcess
from typing import Any

_RESET = (signal.SIGTERM, signal.SIGHUP)


class Forking(ForkContext):
    """A context of multiprocessing that forks, and does something before each fork.

    Args:
        before_fork: called in the parent. What it raises, the start of the process raises.
    """

    def __init__(self, before_fork: Callable[[], object]) -> None:
        self._before_fork = before_fork

    def Process(self, *arguments: Any, **named: Any) -> Worker:  # type: ignore[override]  # noqa: N802
        """A process that is not started yet."""
        worker = Worker(*arguments, **named)
        worker.before_fork = self._before_fork
        return worker


class Worker(ForkProcess):
    """A process that is forked. It ends as any other of multiprocessing's."""

    before_fork: Callable[[], object]

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
