"""After each response of a worker: a count, a collection if that pays, a look at its memory.

The engine ends a worker that is to be replaced.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pasture.scoreboard.recorder import recorder
from pasture.sealing import gc_settings

if TYPE_CHECKING:
    from pasture.serving.recycle import UssWatch


class AfterResponse:
    """The calls after responses, for all workers of a process; each watches its own limit."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._watches: dict[int, UssWatch] = {}  # by pid: a child has its parent's entry, too

    def __call__(self, *, looks: bool = True) -> UssWatch | None:
        """Take all steps, in a worker; returns `passed`, or None without `looks`."""
        recorder.answered()
        gc_settings.collect_between_requests()
        return self.passed() if looks else None

    def passed(self) -> UssWatch | None:
        """The watch of a worker that has passed its limit; only once, then None."""
        if self._limit is None:
            return None
        pid = os.getpid()
        watch = self._watches.get(pid)
        if watch is None:
            from pasture.serving.recycle import UssWatch  # sealed in where a limit has been read

            # Threads that come here at once get one watch: its limit is drawn once.
            watch = self._watches.setdefault(pid, UssWatch(self._limit))
        if not watch.has_passed():
            return None
        recorder.count("recycles")
        return watch


class Watched:
    """An ASGI application, and a call after each request."""

    def __init__(self, application: Any, then: Callable[[], object]) -> None:
        self._application = application
        self._then = then

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._application(scope, receive, send)
        finally:
            if scope["type"] == "http":
                self._then()
