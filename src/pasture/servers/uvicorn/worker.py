"""A worker of uvicorn's that is forked where uvicorn would spawn it.

Owns the fork, and that the worker finds its process as a spawned one would: uvicorn's parent has
handlers of signals, pipes and a certificate in memory that are not for workers. uvicorn itself
reopens stdin there, sets logging up and makes the event loop. Invariant: no signal that is sent to
a worker is lost, from the fork on.
"""

from __future__ import annotations

import atexit
import copy
import functools
import multiprocessing.popen_fork
import multiprocessing.process
import os
import signal
from collections.abc import Callable
from multiprocessing import util
from typing import Any

from uvicorn.config import Config
from uvicorn.supervisors.multiprocess import SIGNALS

from pasture.servers.uvicorn.log_setup import LogSetup


class Inheritance:
    """What a worker makes of the state that it has inherited. Made before uvicorn's handlers.

    Args:
        config: loaded.
        close_pipes: closes those of other workers.
    """

    def __init__(self, config: Config, logs: LogSetup, close_pipes: Callable[[], object]) -> None:
        self._config = config
        self._logs = logs
        self._close_pipes = close_pipes
        self._handlers = {number: signal.getsignal(number) for number in SIGNALS}

    def part(self) -> None:
        """Let go of what is the parent's. Right after the fork.

        Signals get the handlers that they had, the application's among them.
        """
        self._close_pipes()
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def settle(self) -> None:
        """Take the steps for which uvicorn must have set logging up."""
        self._logs.put_back()
        if self._config.is_ssl:
            self._config.ssl = read_certificate(self._config)


def read_certificate(config: Config) -> Any:
    """The SSL context of a configuration, of the files as they are now.

    So that a HUP brings a renewed certificate into service, as it does with spawned workers.
    """
    fresh = copy.copy(config)
    fresh.app, fresh.factory, fresh.interface = _serves_nothing, False, "asgi3"
    fresh.loaded = False
    fresh.load()
    return fresh.ssl


async def _serves_nothing(scope: Any, receive: Any, send: Any) -> None:
    """Stands for the application where `Config.load` shall not import it."""


class ForkContext:
    """Stands in for the context of multiprocessing with which uvicorn starts its workers.

    Args:
        before_fork: called in the parent, right before each fork. What it raises, the
            start of the worker raises.
    """

    def __init__(self, inherited: Inheritance, before_fork: Callable[[], object]) -> None:
        self._inherited = inherited
        self._before_fork = before_fork

    def Process(  # noqa: N802  multiprocessing's name
        self, target: Callable[..., None], kwargs: dict[str, Any]
    ) -> Worker:
        """A worker that is not started yet.

        Args:
            target: uvicorn's `subprocess_started`, which sets up and then calls `kwargs["target"]`.
        """
        serve = functools.partial(_serve, self._inherited, kwargs["target"])
        worker = Worker(target=target, kwargs={**kwargs, "target": serve})
        worker.inherited, worker.before_fork = self._inherited, self._before_fork
        return worker


def _serve(
    inherited: Inheritance, target: Callable[..., object], sockets: list[Any] | None = None
) -> None:
    inherited.settle()
    target(sockets=sockets)


class Worker(multiprocessing.process.BaseProcess):
    """A process of multiprocessing's that is forked and ends as a spawned one does."""

    _start_method = "fork"
    inherited: Inheritance
    before_fork: Callable[[], object]

    def close_inherited(self) -> None:
        """Close another worker's pipes, in a worker: they report the end of parent and worker."""
        fork: _Fork | None = vars(self)["_popen"]
        if fork is not None and fork.finalizer is not None and fork.finalizer.still_active():
            _close(*fork.pipes)

    @staticmethod
    def _Popen(process: Any) -> _Fork:  # noqa: N802  multiprocessing's name
        return _Fork(process)


class _Fork(multiprocessing.popen_fork.Popen):
    """Source: CPython 3.14 Lib/multiprocessing/popen_fork.py.

    Unlike there, functions that the application's import has given to atexit are called in the
    worker, as they are in a spawned one.
    """

    def _launch(self, process: Worker) -> None:
        process.before_fork()
        end, workers_life = os.pipe()
        parents_end, parents_life = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                os.close(end)
                os.close(parents_life)
                _run(process, parents_end, mask)
            self.pipes = (end, parents_life)
            self.finalizer = util.Finalize(self, _close, self.pipes)
        except OSError:
            _close(end, parents_life)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _close(workers_life, parents_end)
        self.sentinel = end


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


def _run(process: Any, parents_end: int, mask: set[Any]) -> None:
    """Be the worker, to its end."""
    code = 1
    try:
        process.inherited.part()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = process._bootstrap(parent_sentinel=parents_end)
    finally:
        atexit._run_exitfuncs()
        os._exit(code)
