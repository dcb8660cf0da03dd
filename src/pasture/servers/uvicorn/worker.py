"""A forked worker of uvicorn's, in the state of a spawned one. uvicorn's parent has handlers of
signals, pipes, logs and a certificate that are not for workers.
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
    """Replaces the context of multiprocessing with which uvicorn starts its workers.

    Made before uvicorn sets its handlers: workers get the present ones, the application's included.
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
        # Signals that C code handles: Python sees the default.
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
        """An unstarted worker for uvicorn's `subprocess_started` and its arguments."""
        serve = functools.partial(self._serve, kwargs["target"])
        return super().Process(target=target, kwargs={**kwargs, "target": serve})

    def _serve(self, target: Callable[..., object], sockets: list[Any] | None = None) -> None:
        self.settle()
        # Make the server now. uvicorn 0.54 makes it in two threads at once, without a lock: the
        # thread of the health check may get another one, which is never started.
        getattr(getattr(target, "__self__", None), "server", None)
        target(sockets=sockets)

    def settle(self) -> None:
        """Repair the state of a worker, once uvicorn has set logging up."""
        self._logs.put_back()
        if self._config.is_ssl:
            self._config.ssl = read_certificate(self._config)


def read_certificate(config: Config) -> Any:
    """The SSL context of a configuration, from the present files.

    So a HUP loads a renewed certificate, as with spawned workers.
    """
    fresh = copy.copy(config)
    fresh.app, fresh.factory, fresh.interface = _serves_nothing, False, "asgi3"
    fresh.loaded = False
    fresh.load()
    return fresh.ssl


async def _serves_nothing(scope: Any, receive: Any, send: Any) -> None:
    """Replaces the application where `Config.load` must not import it."""


class LogSetup:
    """Changes of the logging by the application's import, kept through uvicorn's own set-up.

    A spawned worker sets logging up and then imports the application, which may change it. A forked
    one sets it up after the import. Invariant: in both, the application's configuration overrides
    uvicorn's. Made before the application is imported.
    """

    def __init__(self) -> None:
        self._before = _states()
        self._changed: dict[str, _State] = {}

    def compare(self) -> None:
        """Note the changes, once the application has been imported."""
        now = _states()
        self._changed = {name: s for name, s in now.items() if s != self._before.get(name)}

    def put_back(self) -> None:
        """Repeat the changes, in a worker that has set logging up."""
        for name, (handlers, level, propagate, disabled) in self._changed.items():
            logger = logging.getLogger(name)  # "" is the root logger
            logger.handlers[:] = handlers
            logger.setLevel(level)
            logger.propagate, logger.disabled = propagate, disabled


_State = tuple[tuple[logging.Handler, ...], int, bool, bool]


def _states() -> dict[str, _State]:
    """Handlers, level, `propagate` and `disabled` of each logger."""
    loggers = {"": logging.root, **logging.root.manager.loggerDict}
    return {
        name: (tuple(one.handlers), one.level, one.propagate, one.disabled)
        for name, one in loggers.items()
        if isinstance(one, logging.Logger)
    }


def count_requests(application: Any, limit: int | None) -> Watched:
    """The application, with a count, a collection and a look at memory after each request.

    A worker that has passed its limit ends as at SIGTERM.
    """
    after = AfterResponse(limit)

    def count() -> None:
        watch = after()
        if watch is not None:
            log.info("recycling worker %s: %s", os.getpid(), watch)
            os.kill(os.getpid(), signal.SIGTERM)

    return Watched(application, count)


def as_in_uvicorn(application: Any, config: Config) -> Any:
    """The application (ASGI 3) for the warm-up, wrapped as in a worker."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" and config.lifespan == "off":
            raise RuntimeError("uvicorn runs with --lifespan off")
        if scope["type"] == "http":
            root = config.root_path
            raw = root.encode() + scope["raw_path"]
            scope |= {"root_path": root, "path": root + scope["path"], "raw_path": raw}
        await application(scope, receive, send)

    return served
