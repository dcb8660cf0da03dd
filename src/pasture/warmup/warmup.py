"""The warm-up: the parent serves a few requests itself, before the fork.

Templates, routes, caches and specialized bytecode, which an application builds at its first
requests, then exist before the fork, and are shared. Owns the run and its report. The parent starts
whatever a request does (`guard`), and the report has the errors. docs/internals/warmup.md has the
gain of a warm-up.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pasture import off
from pasture.fork_safety.libraries import all_of
from pasture.reasons import Hazard
from pasture.warmup import protocol as protocols
from pasture.warmup import wsgi
from pasture.warmup.guard import STEP_S, TOTAL_S, Guard
from pasture.warmup.protocol import Protocol
from pasture.warmup.requests import Header, Request, parse_request

if TYPE_CHECKING:
    from pasture.warmup.asgi import Session

_THREADS_END_S = 1.0  # AnyIO's worker threads end after the event loop, which does not await them
_END_S = 10.0  # minimum for the end of a loop, which closes pools

_TRIES_WITHOUT_LIFESPAN = 3
"""If this many requests fail at first, they need the application's start."""

_NEEDS_LIFESPAN = (
    "requests failed, and the application was not started for them: `--lifespan warm-up` starts "
    "and ends it around them in the parent, `--lifespan once` starts it once for all workers"
)

Call = Callable[[Request], int]
"""Serves a request and returns the status, or raises the application's error."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one request."""

    request: Request
    status: int | None  # status of the response; None without one
    error: str | None  # the application's exception, or why it was stopped; else None
    seconds: float
    changed: tuple[str, ...] = ()  # its changes of the process, which were undone

    @property
    def failed(self) -> bool:
        """Whether it has no answer, or one in the 500s. A 404 warms up as well as any page."""
        return self.status is None or self.status >= 500

    def __str__(self) -> str:
        return f"{self.request}: {self.error or self.status}"


@dataclass(frozen=True, slots=True)
class WarmUpReport:
    """The outcome of a warm-up.

    Attributes:
        answers: one for each request, in order.
        threads: names of the threads that the requests started and that still run.
        refused: why requests were not served; None if all were.
        unlimited: why requests had no time limit; None if they had.
        changed: changes of the process by an application's start and end, a line each.
        startup_s: time that an ASGI application's start took; None without one.
        application, headers, host: the application, and the headers of its requests.
        protocol: the protocol of the application's calls; None without one.
        hazards: objects of requests on their event loop that workers cannot use.
        advice: what to do about requests that failed, or None.
    """

    answers: tuple[Answer, ...] = ()
    threads: tuple[str, ...] = ()
    refused: str | None = None
    unlimited: str | None = None
    changed: tuple[str, ...] = ()
    startup_s: float | None = None
    application: Callable[..., Any] | None = None
    headers: tuple[Header, ...] = ()
    host: str = "localhost"
    hazards: tuple[Hazard, ...] = ()
    advice: str | None = None
    protocol: Protocol | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """Requests served, and how many of them failed."""
        failed = sum(answer.failed for answer in self.answers)
        return {"requests": len(self.answers), "failed": failed}

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems for the user, a sentence each."""
        failed = [str(answer) for answer in self.answers if answer.failed]
        changed = [_put_back(str(a.request), a.changed) for a in self.answers if a.changed]
        threads = [f"a request started thread {name}" for name in self.threads]
        problems = (*filter(None, (self.refused, self.unlimited)), *failed)
        advice = (self.advice,) if self.advice else ()
        return (*problems, *advice, *changed, *self.changed, *threads)


def warm_up(
    application: Callable[..., Any],
    requests: Iterable[Request | str],
    *,
    headers: Iterable[Header] = (),
    host: str = "localhost",
    on_start: Callable[[str], object] = lambda name: None,
    on_answer: Callable[[Answer], object] = lambda answer: None,
    timeout_s: float = STEP_S,
    total_timeout_s: float = TOTAL_S,
    session: Session | None = None,
    lifespan: bool = False,
    protocol: Protocol | None = None,
) -> WarmUpReport:
    """Serve requests through a WSGI or ASGI application object, one after the other.

    In the parent, before the fork; call `close_connections` (or `seal`, which does) after it. Each
    request runs in a copy of the context. Responses are read up to 16 MiB. The requests of an ASGI
    application share an event loop, which is closed after them with all that was opened on it.

    A request that takes too long is stopped (in the main thread), and so is one during which the
    process is asked to end (SIGINT, SIGTERM, SIGQUIT; their handlers are called then). A request's
    changes of the process (handlers of signals, environment, working directory and so on) are
    undone after it.

    Args:
        requests: as `Request`, or as text: `PATH` or `METHOD PATH`.
        headers: sent with each; pairs of name and value.
        host: `Host` header where a request has none of its own.
        on_start: called before each request, and at start and end of an ASGI application.
        on_answer: called with each answer as it comes.
        timeout_s: limit of a request, and of start and end; 0 for no limit.
        total_timeout_s: limit of the warm-up; 0 for no limit.
        session: of a started ASGI application, which goes on afterwards.
        lifespan: start an ASGI application before its requests and end it after them. Workers
            inherit what its end leaves behind.
        protocol: the protocol of the server's calls; by default the parameters decide. A factory is
            not called.

    Raises:
        UsageError: a request is malformed; none was served.
        KeyboardInterrupt: the process was asked to end.
    """
    if (is_off := off.why()) is not None:
        return WarmUpReport(refused=is_off)
    served = [parse_request(r) if isinstance(r, str) else r for r in requests]
    carried = tuple(headers)
    spoken = protocols.find(application) if protocol is None else protocol
    why = protocols.refusal(application, spoken)
    if why is not None:
        return WarmUpReport(refused=why)
    before = set(threading.enumerate())
    with (
        all_of(lambda library: library.while_warming()),
        Guard(on_start, step_s=timeout_s, total_s=total_timeout_s) as guard,
    ):
        run = _Run(guard, served, on_answer)
        if session is not None:
            run.serve_session(session, carried, host)
        elif spoken is Protocol.ASGI:
            run.serve_asgi(application, carried, host, lifespan=lifespan)
        else:
            run.serve(
                lambda request: contextvars.copy_context().run(
                    wsgi.call, application, wsgi.build_environ(request, carried, host)
                )
            )
    unlimited = None if guard.has_limit else "no time limit: this is not the main thread"
    return WarmUpReport(
        answers=tuple(run.answers),
        threads=_threads_left(before),
        refused=run.refused,
        unlimited=unlimited,
        changed=tuple(run.changed),
        startup_s=run.startup_s,
        application=application,
        headers=carried,
        host=host,
        hazards=tuple(run.hazards),
        advice=run.advice,
        protocol=spoken,
    )


def _threads_left(before: set[threading.Thread]) -> tuple[str, ...]:
    """Names of the threads that run on, after a moment for those that end."""
    deadline = perf_counter() + _THREADS_END_S
    started = [thread for thread in threading.enumerate() if thread not in before]
    for thread in started:
        thread.join(max(0.0, deadline - perf_counter()))
    return tuple(thread.name for thread in started if thread.is_alive())


class _Run:
    def __init__(
        self, guard: Guard, requests: list[Request], on_answer: Callable[[Answer], object]
    ) -> None:
        self._guard = guard
        self.answers: list[Answer] = []
        self.refused: str | None = None
        self.advice: str | None = None
        self.changed: list[str] = []
        self.startup_s: float | None = None
        self._step_s = 0.0
        self.hazards: list[Hazard] = []
        self._requests = requests
        self._on_answer = on_answer
        self._tries = 0

    def serve(self, call: Call) -> None:
        """Serve all requests, while there is time."""
        for number, request in enumerate(self._requests):
            left = len(self._requests) - number
            if self._guard.is_over:
                self.refused = f"the time is over, {left} requests were not served"
                return
            if 0 < number == self._tries and all(answer.failed for answer in self.answers):
                self.refused = f"left out after {number} requests that failed, {left} not served"
                return
            outcome = self._guard.run(str(request), partial(call, request))
            answer = Answer(request, outcome.value, outcome.error, outcome.seconds, outcome.changed)
            self.answers.append(answer)
            self._on_answer(answer)

    def serve_asgi(
        self,
        application: Callable[..., Any],
        headers: tuple[Header, ...],
        host: str,
        *,
        lifespan: bool,
    ) -> None:
        """Serve on a new loop; with `lifespan` between start and end of the application."""
        from pasture.warmup import asgi  # asyncio is not loaded for WSGI

        session = asgi.Session(application)
        serve = partial(self.serve_session, session, headers, host)
        (self._serve_started if lifespan else self._serve_unstarted)(session, serve)
        self.hazards += session.look_back()

    def _serve_started(self, session: Session, serve: Callable[[], None]) -> None:
        if self._take("lifespan startup", session.start):
            self.startup_s = self._step_s if session.lifespan.waits else None
            serve()
            self._take("lifespan shutdown", session.end)

    def _serve_unstarted(self, session: Session, serve: Callable[[], None]) -> None:
        if self._take("start of the event loop", session.open):
            self._tries = _TRIES_WITHOUT_LIFESPAN
            serve()
            if any(answer.failed for answer in self.answers):
                self.advice = _NEEDS_LIFESPAN
            self._take("end of the event loop", session.close, least_s=_END_S)

    def serve_session(self, session: Session, headers: tuple[Header, ...], host: str) -> None:
        """Serve through an application that has been started."""
        from pasture.warmup import asgi

        self.serve(lambda request: session.call(asgi.build_scope(request, headers, host)))

    def _take(self, name: str, step: Callable[[], str | None], least_s: float = 0.0) -> bool:
        """Take a step, which returns None or its error; returns whether it succeeded."""
        outcome = self._guard.run(name, step, least_s=least_s)
        self._step_s = outcome.seconds
        failed = outcome.value or outcome.error
        if outcome.changed:
            self.changed.append(_put_back(name, outcome.changed))
        if failed is not None:
            what = name.removeprefix("lifespan ")
            self.refused = f"the application's lifespan: {what}: {failed}"
            if what == name:
                self.refused = f"{name}: {failed}"
        return failed is None


def _put_back(name: str, changed: tuple[str, ...]) -> str:
    return f"{name} changed {', '.join(changed)}: put back"
