"""The warm-up: the parent serves requests itself, so that what an application builds at its
first requests (templates, routes, caches, specialized bytecode) is there before the fork.

Owns the run and its report. Nothing that a request does may end the parent: what goes
wrong is reported. docs/internals/warmup.md says what it is worth.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from pasture.heap import wsgi
from pasture.heap.requests import Header, Request, parse_request

_THREADS_END_S = 1.0
"""AnyIO's worker threads, which serve the synchronous pages of FastAPI, end when the loop does,
and nobody waits for them."""

Call = Callable[[Request], int]
"""Serves a request and returns its status, or raises what the application raises."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request.

    Attributes:
        status: of the response; None if there is none.
        error: the exception that the application raised; None if it did not.
    """

    request: Request
    status: int | None
    error: str | None
    seconds: float

    @property
    def failed(self) -> bool:
        """No answer, or one in the 500s. A 404 warms up as well as any other page."""
        return self.status is None or self.status >= 500

    def __str__(self) -> str:
        return f"{self.request}: {self.error or self.status}"


@dataclass(frozen=True, slots=True)
class WarmUpReport:
    """What a warm-up did.

    Attributes:
        answers: one for each request, in order.
        threads: names of the threads that the requests started and that still run. They
            do not run in children.
        refused: why no request was served, or not all were; None if they were.
    """

    answers: tuple[Answer, ...] = ()
    threads: tuple[str, ...] = ()
    refused: str | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """Requests served, and how many of them failed."""
        failed = sum(answer.failed for answer in self.answers)
        return {"requests": len(self.answers), "failed": failed}

    @property
    def problems(self) -> tuple[str, ...]:
        """What a user should know, a line each."""
        failed = [str(answer) for answer in self.answers if answer.failed]
        threads = [f"a request started thread {name}" for name in self.threads]
        return (*filter(None, (self.refused,)), *failed, *threads)


def warm_up(
    application: Callable[..., Any],
    requests: Iterable[Request | str],
    *,
    headers: Iterable[Header] = (),
    host: str = "localhost",
    on_answer: Callable[[Answer], object] = lambda answer: None,
) -> WarmUpReport:
    """Serve requests through a WSGI or ASGI application object, one after the other.

    In the parent, before the fork; call `close_connections` (or `seal`, which does) after
    it. Each request runs in a copy of the context, so that nothing a request sets for
    itself is left to the workers. Responses are read up to 16 MiB. An ASGI application is
    started and ended around its requests (its lifespan), in an event loop of its own.

    Args:
        requests: as `Request`, or as text: `PATH` or `METHOD PATH`.
        headers: sent with each; pairs of name and value.
        host: `Host` header where a request has none of its own.
        on_answer: told of each answer as it comes.

    Raises:
        UsageError: a request is malformed; none was served.
    """
    served = [parse_request(r) if isinstance(r, str) else r for r in requests]
    carried = tuple(headers)
    before = set(threading.enumerate())
    answers = []

    def serve(call: Call) -> None:
        for request in served:
            answers.append(_serve(call, request))
            on_answer(answers[-1])

    refused = None
    if _is_asgi(application):
        refused = _in_session(application, carried, host, serve)
    else:
        serve(
            lambda request: contextvars.copy_context().run(
                wsgi.call, application, wsgi.build_environ(request, carried, host)
            )
        )
    return WarmUpReport(tuple(answers), _threads_left(before), refused)


def _threads_left(before: set[threading.Thread]) -> tuple[str, ...]:
    """Names of the threads that run on. Those that were told to end get a moment for it."""
    deadline = perf_counter() + _THREADS_END_S
    started = [thread for thread in threading.enumerate() if thread not in before]
    for thread in started:
        thread.join(max(0.0, deadline - perf_counter()))
    return tuple(thread.name for thread in started if thread.is_alive())


def _in_session(
    application: Callable[..., Any],
    headers: tuple[Header, ...],
    host: str,
    serve: Callable[[Call], None],
) -> str | None:
    """Serve between the start and the end of an ASGI application; returns what failed of these."""
    from pasture.heap import asgi  # asyncio is not loaded for WSGI

    try:
        with asgi.Session(application) as session:
            serve(lambda request: session.call(asgi.build_scope(request, headers, host)))
    except asgi.LifespanFailed as error:
        return f"the application's lifespan: {error}"
    return None


def _serve(call: Call, request: Request) -> Answer:
    status = error = None
    start = perf_counter()
    try:
        status = call(request)
    except (Exception, SystemExit) as raised:
        error = f"{type(raised).__name__}: {raised}"
    return Answer(request, status, error, perf_counter() - start)


def _is_asgi(application: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(
        getattr(application, "__call__", None)  # noqa: B004
    )
