"""Calls after a hook of the user's (`pre_fork`, `post_request` ...), of any kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pasture.scoreboard.recorder import recorder
from pasture.serving.after_response import AfterResponse


class Behind:
    """A hook of the user's, then pasture's call with the last argument, the worker."""

    def __init__(self, users: Callable[..., object], ours: Callable[[Any], object]) -> None:
        self.users = users
        self._ours = ours
        self.__signature__ = inspect.signature(users)  # gunicorn counts the arguments

    def __call__(self, *arguments: Any) -> None:
        self.users(*arguments)
        self._ours(arguments[-1])


def call_behind(cfg: Any, hook: str, ours: Callable[[Any], object]) -> None:
    """Call `ours` after a hook (`pre_fork`, `post_worker_init`) of the user's, which may close or
    build objects before a seal.

    A second call changes nothing: an application may keep its configuration at a reload.
    """
    users = getattr(cfg, hook)
    if not isinstance(users, Behind):
        cfg.set(hook, Behind(users, ours))


class AfterRequest:
    """The user's `post_request`, then the count, a collection, a look at memory, and last `then`.

    The response has been sent. A worker that has passed its limit ends as at `max_requests`: it
    takes no more connections, finishes its requests, and is replaced.
    """

    def __init__(self, users: Callable[..., object], limit: int | None) -> None:
        self.then: Callable[[], object] | None = None
        self._users = users
        self._after = AfterResponse(limit)

    def __call__(self, worker: Any, req: Any, environ: Any, resp: Any) -> None:
        try:
            self._users(worker, req, environ, resp)
        finally:
            self.count(worker)
            if self.then is not None:
                self.then()

    def count(self, worker: Any) -> None:
        """Count, collect and look at memory, without the user's hook and `then`."""
        watch = self._after(looks=worker.alive)
        if watch is not None:
            worker.alive = False  # before the log line: other threads serve meanwhile
            worker.log.info("pasture: recycling worker %s: %s", worker.pid, watch)


def call_after_request(
    cfg: Any, limit: int | None, then: Callable[[], object] | None = None
) -> None:
    """Have workers count each response, end after it if they pass a limit, and call `then`."""
    recorder.will_count_requests()
    if not isinstance(cfg.post_request, AfterRequest):
        cfg.set("post_request", AfterRequest(cfg.post_request, limit))
    cfg.post_request.then = then
