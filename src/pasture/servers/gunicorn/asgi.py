"""gunicorn's workers for ASGI applications: their classes, and the calls after a response.
uvicorn's workers do not call `post_request`.

So the count of requests, a collection and a look at memory are done around the application.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from pasture.servers.gunicorn.hooks import call_behind
from pasture.serving.after_response import Watched

OF_GUNICORN = ("gunicorn.workers.gasgi",)
OF_UVICORN = ("uvicorn.workers", "uvicorn_worker._workers")
"""Modules with the workers' classes in uvicorn 0.30 to 0.54 and uvicorn-worker 0.2 to 0.4."""

CLASSES = OF_GUNICORN + OF_UVICORN

_AT_START = ("loop", "http", "ws", "lifespan")
"""Options of uvicorn that name what a worker imports."""


def is_of(worker_class: type, modules: tuple[str, ...]) -> bool:
    """Whether a class of workers, or a base class, comes from one of these modules."""
    return any(base.__module__ in modules for base in worker_class.__mro__)


def import_server(worker_class: type) -> None:
    """Import the protocols and the event loop that uvicorn's workers import when they start.

    In the process that forks them, before the seal. A missing module is the worker's error.
    """
    if not is_of(worker_class, OF_UVICORN):
        return
    given: dict[str, Any] = getattr(worker_class, "CONFIG_KWARGS", {})
    options = {name: given[name] for name in _AT_START if name in given}
    with contextlib.suppress(Exception, SystemExit):
        config = sys.modules["uvicorn.config"].Config(_no_application, log_config=None, **options)
        config.load()
        if hasattr(config, "get_loop_factory"):
            config.get_loop_factory()


async def _no_application(scope: Any, receive: Any, send: Any) -> None:
    """Stands for the application where a server is loaded without one."""


def watch_requests(cfg: Any, then: Callable[[], object] | None = None) -> None:
    """Have ASGI workers do after each request what gunicorn's other workers do. At the start and at
    HUP, after `hooks.call_after_request` was called; `then` is called last.
    """

    def watch(worker: Any) -> None:
        def count() -> None:
            was_alive = worker.alive
            worker.cfg.post_request.count(worker)
            if was_alive and not worker.alive:  # uvicorn ignores it
                os.kill(os.getpid(), signal.SIGTERM)
            if then is not None:
                then()

        if is_of(type(worker), OF_UVICORN):
            worker.wsgi = Watched(worker.wsgi, count)
        elif is_of(type(worker), OF_GUNICORN) and then is not None:
            worker.asgi = Watched(worker.asgi, then)

    call_behind(cfg, "post_worker_init", watch)
