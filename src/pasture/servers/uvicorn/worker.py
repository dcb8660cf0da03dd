"""What a forked worker of uvicorn's has that a spawned one would have.

uvicorn's parent has handlers of signals, pipes, logs and a certificate in memory that are not for
workers. uvicorn itself reopens stdin there, sets logging up and makes the event loop.
"""

from __future__ import annotations

import copy
import functools
import signal
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.supervisors.multiprocess import SIGNALS

from pasture.servers.forked_process import Forking, Worker
from pasture.servers.uvicorn.log_setup import LogSetup


class ForkContext(Forking):
    """Stands in for the context of multiprocessing with which uvicorn starts its workers.

    Made before uvicorn's handlers of signals: workers get those of now, the application's too.

    Args:
        config: loaded.
        before_fork, let_go: as of `Forking`.
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
        self._config, self._logs = config, logs

    def Process(  # type: ignore[override]  # noqa: N802  multiprocessing's name
        self, target: Callable[..., None], kwargs: dict[str, Any]
    ) -> Worker:
        """A worker that is not started yet.

        Args:
            target: uvicorn's `subprocess_started`, which sets up and then calls `kwargs["target"]`.
        """
        serve = functools.partial(self._serve, kwargs["target"])
        return super().Process(target=target, kwargs={**kwargs, "target": serve})

    def _serve(self, target: Callable[..., object], sockets: list[Any] | None = None) -> None:
        self.settle()
        target(sockets=sockets)

    def settle(self) -> None:
        """In a worker, once uvicorn has set logging up."""
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
