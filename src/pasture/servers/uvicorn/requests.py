"""Around the application: the scope that uvicorn gives it, and what is done after a response."""

from __future__ import annotations

import os
import signal
from typing import Any

from uvicorn.config import Config

from pasture.log_lines import log
from pasture.servers.after_response import AfterResponse
from pasture.servers.recycle import MemoryLimit


class AfterRequest:
    """An ASGI application, then the count of requests, a collection and a look at memory.

    A worker that has passed its limit ends as one that is asked to: it takes no more connections,
    finishes what it has, and uvicorn replaces it.
    """

    def __init__(self, application: Any, limit: MemoryLimit | None) -> None:
        self._application = application
        self._after = AfterResponse(limit)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._application(scope, receive, send)
        finally:
            if scope["type"] == "http":
                self._count()

    def _count(self) -> None:
        watch = self._after()
        if watch is not None:
            log.info("recycling worker %s: %s", os.getpid(), watch)
            os.kill(os.getpid(), signal.SIGTERM)


def as_in_uvicorn(application: Any, config: Config) -> Any:
    """An application for the warm-up, which sees what it would see in a worker.

    Args:
        application: ASGI 3, as `Config.load` makes any.
    """

    async def served(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" and config.lifespan == "off":
            raise RuntimeError("uvicorn was asked to start no lifespan")
        if scope["type"] == "http":
            root = config.root_path
            raw = root.encode() + scope["raw_path"]
            scope |= {"root_path": root, "path": root + scope["path"], "raw_path": raw}
        await application(scope, receive, send)

    return served
