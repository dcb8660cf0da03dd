"""Putting a call behind a hook of the user's (`pre_fork`, `post_request` ...), whatever that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pasture.scoreboard.recorder import recorder
from pasture.servers.after_response import AfterResponse
from pasture.servers.recycle import MemoryLimit


class BeforeFork:
    """The user's `pre_fork`, then a call of ours: the last thing before the fork.

    The user's comes first, so that what it closes and builds is in its final state.
    """

    def __init__(self, users: Callable[[Any, Any], object], ours: Callable[[Any], None]) -> None:
        self.users = users
        self._ours = ours

    def __call__(self, server: Any, worker: Any) -> None:
        self.users(server, worker)
        self._ours(worker)
        recorder.expect_worker()


def call_before_fork(cfg: Any, ours: Callable[[Any], None]) -> None:
    """Have `ours` called after the user's `pre_fork`. A second call changes nothing.

    Args:
        cfg: gunicorn's configuration; an application may keep the same one at a reload.
        ours: takes the worker that is about to be forked.
    """
    if not isinstance(cfg.pre_fork, BeforeFork):
        cfg.set("pre_fork", BeforeFork(cfg.pre_fork, ours))


class AfterRequest:
    """The user's `post_request`, then the count of requests, a collection and a look at memory.

    The response has been sent by then. A worker that has passed its limit ends as one does
    at `max_requests`: it takes no more connections, finishes those it has, and is replaced.

    Attributes:
        then: called last.
    """

    def __init__(self, users: Callable[..., object], limit: MemoryLimit | None) -> None:
        self.then: Callable[[Any, Any], None] | None = None
        self._users = users
        self._after = AfterResponse(limit)

    def __call__(self, worker: Any, req: Any, environ: Any, resp: Any) -> None:
        try:
            self._users(worker, req, environ, resp)
        finally:
            self.count(worker)
            if self.then is not None:
                self.then(req, resp)

    def count(self, worker: Any) -> None:
        """Do all of it but for the user's hook and `then`."""
        watch = self._after(looks=worker.alive)
        if watch is not None:
            worker.log.info("pasture: recycling worker %s: %s", worker.pid, watch)
            worker.alive = False


def call_after_request(
    cfg: Any, limit: MemoryLimit | None, then: Callable[[Any, Any], None] | None = None
) -> None:
    """Have workers count each response, and end after one if they pass a limit.

    A second call changes nothing but what is called last.

    Args:
        cfg: gunicorn's configuration, with which workers are forked later.
        then: called last, after each response, with gunicorn's request and response.
    """
    recorder.will_count_requests()
    if not isinstance(cfg.post_request, AfterRequest):
        cfg.set("post_request", AfterRequest(cfg.post_request, limit))
    if then is not None:
        cfg.post_request.then = then


class AfterLoad:
    """The user's `post_worker_init`, then a call of ours: the last thing before a worker serves."""

    def __init__(self, users: Callable[[Any], object], ours: Callable[[Any], None]) -> None:
        self._users = users
        self._ours = ours

    def __call__(self, worker: Any) -> None:
        self._users(worker)
        self._ours(worker)


def call_after_load(cfg: Any, ours: Callable[[Any], None]) -> None:
    """Have `ours` called after the user's `post_worker_init`. A second call changes nothing."""
    if not isinstance(cfg.post_worker_init, AfterLoad):
        cfg.set("post_worker_init", AfterLoad(cfg.post_worker_init, ours))
