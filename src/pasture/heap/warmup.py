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
        refused: why no request was served; None if they were.
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
    """Serve requests through a WSGI application object, one after the other.

    In the parent, before the fork; call `close_connections` (or `seal`, which does) after
    it. Each request runs in a copy of the context, so that nothing a request sets for
    itself is left to the workers. Responses are read up to 16 MiB.

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
    if _is_asgi(application):
        return WarmUpReport(refused="an ASGI application cannot be warmed up yet, only WSGI")
    before = set(threading.enumerate())
    answers = []
    for request in served:
        answer = contextvars.copy_context().run(_serve, application, request, carried, host)
        on_answer(answer)
        answers.append(answer)
    started = [thread.name for thread in threading.enumerate() if thread not in before]
    return WarmUpReport(tuple(answers), tuple(started))


def _serve(
    application: Callable[..., Any], request: Request, headers: tuple[Header, ...], host: str
) -> Answer:
    status = error = None
    start = perf_counter()
    try:
        status = wsgi.call(application, wsgi.build_environ(request, headers, host))
    except (Exception, SystemExit) as raised:
        error = f"{type(raised).__name__}: {raised}"
    return Answer(request, status, error, perf_counter() - start)


def _is_asgi(application: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(
        getattr(application, "__call__", None)  # noqa: B004
    )
