"""A forked worker of uvicorn's, given what a spawned one would have.

uvicorn's parent has handlers of signals, pipes, logs and a certificate that are not for workers.
"""

from __future__ import annotations

import copy
import functools
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from uvicorn.config import Config
from uvicorn.supervisors.multiprocess import SIGNALS

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import native
from pasture.log_lines import log
from pasture.serving.after_response import AfterResponse, Watched
from pasture.serving.forked_process import Forking, Worker


class ForkContext(Forking):
    """Stands in for the context of multiprocessing with which uvicorn starts its workers.

    Made before uvicorn's handlers of signals: workers get those of now, the application's too.
    """

    def __init__(
        self,
        config: Config,
        logs: LogSetup,
        before_fork: Callable[[], object],
        let_go: Callable[[], object],
    ) -> None:
        handlers = {signal.Signals(number): signal.getsignal(number) for number in SIGNALS}
        super().__init__(before_fork, handlers=handlers, let_go=let_go)
        self._actions: dict[signal.Signals, bytes] = {}
        # Those that C code handles: for Python they have the default.
        numbers = [one for one, handler in handlers.items() if not callable(handler)]
        with suppress(UnsupportedInterpreter):
            self._actions = {one: native().signal_action(one) for one in numbers}
        self._config, self._logs = config, logs

    def part(self) -> None:
        super().part()
        for number, action in self._actions.items():
            native().set_signal_action(number, action)

    def Process(  # type: ignore[override]  # noqa: N802  multiprocessing's name
        self, target: Callable[..., None], kwargs: dict[str, Any]
    ) -> Worker:
        """A worker that is not started yet, of uvicorn's `subprocess_started` and its arguments."""
        serve = functools.partial(self._serve, kwargs["target"])
        return super().Process(target=target, kwargs={**kwargs, "target": serve})

    def _serve(self, target: Callable[..., object], sockets: list[Any] | None = None) -> None:
        self.settle()
        # Have the server made now. uvicorn 0.54 uses it first in two threads at once, without a
        # lock: that of the health check may get one that nothing starts.
        getattr(getattr(target, "__self__", None), "server", None)
        target(sockets=sockets)

    def settle(self) -> None:
        """In a worker, once uvicorn has set logging up."""
        self._logs.put_back()
        if self._config.is_ssl:
            self._config.ssl = read_certificate(self._config)


def read_certificate(config: Config) -> Any:
    """The SSL context of a configuration, of the files as they are now.

    So a HUP brings a renewed certificate into service, as it does with spawned workers.
    """
    fresh = copy.copy(config)
    fresh.app, fresh.factory, fresh.interface = _serves_nothing, False, "asgi3"
    fresh.loaded = False
    fresh.load()
    return fresh.ssl


async def _serves_nothing(scope: Any, receive: Any, send: Any) -> None:
    """Stands for the application where `Config.load` shall not import it."""


class LogSetup:
    """Changes of the logging by the application's import, kept through uvicorn's own set-up.

    A spawned worker sets logging up and then imports the application, which may change it. A forked
    one sets up after the import. Invariant: in both, the application's configuration overrides
    uvicorn's. Made before the application is imported.
    """

    def __init__(self) -> None:
        self._before = _states()
        self._changed: dict[str, _State] = {}

    def compare(self) -> None:
        """Note the changes. Call it when the application has been imported."""
        now = _states()
        self._changed = {name: s for name, s in now.items() if s != self._before.get(name)}

    def put_back(self) -> None:
        """Make them again, in a worker that has set logging up."""
        for name, (handlers, level, propagate, disabled) in self._changed.items():
            logger = logging.getLogger(name)  # "" is the root
            logger.handlers[:] = handlers
            logger.setLevel(level)
            logger.propagate, logger.disabled = propagate, disabled


_State = tuple[tuple[logging.Handler, ...], int, bool, bool]


def _states() -> dict[str, _State]:
    """Of each logger: handlers, level, `propagate`, `disabled`."""
    loggers = {"": logging.root, **logging.root.manager.loggerDict}
    return {
        name: (tuple(one.handlers), one.level, one.propagate, one.disabled)
        for name, one in loggers.items()
        if isinstance(one, logging.Logger)
    }


def count_requests(application: Any, limit: int | None) -> Watched:
    """An application, and after each request a count, a collection and a look at memory.

    A worker that has passed its limit ends as one that is asked to.
    """
    after = AfterResponse(limit)

    def count() -> None:
        watch = after()
        if watch is not None:
            log.info("recycling worker %s: %s", os.getpid(), watch)
            os.kill(os.getpid(), signal.SIGTERM)

    return Watched(application, count)


def as_in_uvicorn(application: Any, config: Config) -> Any:
    """An application (ASGI 3) for the warm-up, which sees what it would see in a worker."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" and config.lifespan == "off":
            raise RuntimeError("uvicorn was asked to start no lifespan")
        if scope["type"] == "http":
            root = config.root_path
            raw = root.encode() + scope["raw_path"]
            scope |= {"root_path": root, "path": root + scope["path"], "raw_path": raw}
        await application(scope, receive, send)

    return served
