"""Processes of `multiprocessing` that are forked where a server's parent would spawn them.

A child starts and ends as a spawned one: without the parent's resources, and with calls of the
functions that the application's import has given to `atexit`. Invariant: a child loses no signal
from the fork on; until its own code sets handlers it has those of its context.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import popen_fork, util
from multiprocessing.context import ForkContext, ForkProcess
from typing import Any, NoReturn
from weakref import WeakSet

Handlers = Mapping[signal.Signals, Any]
"""Handlers by signal, as `signal.signal` takes them."""

OF_A_NEW_PROCESS: Handlers = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}


class Forking(ForkContext):
    """A context of multiprocessing that forks, with a call before each fork.

    Args:
        before_fork: called in the parent; the start of the process passes its errors on.
        handlers: of children, for the signals that the parent handles. A signal that the parent
            ignores stays ignored where this says SIG_DFL, as it does through exec.
        let_go: called in each child, to close the parent's resources.
        ends_within_s: time for workers to end, in a parent that terminates the rest when the first
            has ended.
    """

    def __init__(
        self,
        before_fork: Callable[[], object],
        *,
        handlers: Handlers = OF_A_NEW_PROCESS,
        let_go: Callable[[], object] = lambda: None,
        ends_within_s: float = 0.0,
    ) -> None:
        self.before_fork = before_fork
        self.handlers = handlers
        self.forks: WeakSet[_Fork] = WeakSet()
        self.ends_within_s = ends_within_s
        self.ends_at: float | None = None
        self._let_go = let_go

    def Process(self, *arguments: Any, **named: Any) -> Worker:  # type: ignore[override]  # noqa: N802
        """A process that is not started yet."""
        worker = Worker(*arguments, **named)
        worker.context = self
        return worker

    def part(self) -> None:
        """Close the parent's resources. Right after the fork."""
        for fork in self.forks:
            fork.close_inherited()
        self._let_go()
        for number, handler in self.handlers.items():
            if handler is signal.SIG_DFL and signal.getsignal(number) is signal.SIG_IGN:
                continue  # as SIGHUP under nohup
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


class Worker(ForkProcess):
    """A process that is forked and ends as a spawned one does."""

    context: Forking

    def terminate(self) -> None:
        """Send SIGTERM, once the time for ending without it is over."""
        context, now = self.context, time.monotonic()
        if context.ends_at is None:  # the first one to end
            context.ends_at = now + context.ends_within_s
        self.join(max(0.0, context.ends_at - now))
        super().terminate()

    @staticmethod
    def _Popen(process: Any) -> _Fork:  # noqa: N802  multiprocessing's name
        return _Fork(process)


class _Fork(popen_fork.Popen):
    """Source: CPython 3.14 Lib/multiprocessing/popen_fork.py."""

    def _launch(self, process: Worker) -> None:
        context = process.context
        context.before_fork()
        end, workers_life = os.pipe()
        try:
            parents_end, parents_life = os.pipe()
        except OSError:
            _close(end, workers_life)
            raise
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, context.handlers)
        try:
            with _tracker_shared():
                self.pid = os.fork()
            if self.pid == 0:
                _close(end, parents_life)
                _live(process, parents_end, mask)
            self._pipes = (end, parents_life)
            self.finalizer = util.Finalize(self, _close, self._pipes)
            context.forks.add(self)
        except OSError:
            _close(end, parents_life)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _close(workers_life, parents_end)
        self.sentinel = end

    def close_inherited(self) -> None:
        """Close in another child this process's pipes, which report its end and the parent's."""
        if self.finalizer is not None and self.finalizer.still_active():
            _close(*self._pipes)


def _live(process: Any, parents_end: int, mask: set[Any]) -> NoReturn:
    code = 1
    try:
        process.context.part()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = process._bootstrap(parent_sentinel=parents_end)
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


@contextmanager
def _tracker_shared() -> Iterator[None]:
    """Have the child keep the parent's resource tracker, which newer CPythons close at forks.

    Source: CPython gh-146313.
    """
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    intent: Any = getattr(tracker, "_fork_intent", None)
    if intent is None:
        yield
        return
    intent.preserve_fd = True
    try:
        yield
    finally:
        intent.preserve_fd = False
