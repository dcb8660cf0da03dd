"""The child's side of the probe: it serves the requests, a step at a time, and reports each step.

Owns the alarm that ends a step that hangs, finding out where it hangs, and the exceptions behind a
5xx. Runs in a process that is ended afterwards, so nothing that it changes is put back. It ends as
a worker does, so that what it has started is ended, after a step that hangs as well.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from pasture.probe import cause, own_end
from pasture.probe.expectation import Expectation
from pasture.warmup import wsgi
from pasture.warmup.protocol import Protocol
from pasture.warmup.response import Response
from pasture.warmup.warmup import WarmUpReport

if TYPE_CHECKING:
    from pasture.warmup.asgi import Session

BEGIN, END, HUNG, OVER, DONE = "begin", "end", "hung", "over", "done"
"""Events. `HUNG` is a step over its own limit, `OVER` one over the probe's. The last three end what
counts: what comes after is the worker's end."""

END_NOW = signal.SIGRTMAX - 6
"""Sent to a probe whose server is asked to end."""

WORKERS_START = "the worker's start"

_MIN_S = 5.0
_TIMES = 4
"""A step may take this multiple of what it took in the parent, and `_MIN_S` in any case: or half of
the probe's time, if that is less. After `_MIN_S` a step of which no time is known is looked at."""

_IDLE = 0.05
"""A request that has had less of a processor, as a fraction of its time, waits for something."""

_ASKED_AGAIN = 3
"""How often more a page is asked for whose answer differs: it may vary by itself."""

Call = Callable[[], Response]
Run = Callable[[Call], Response]
"""Runs a call where a worker would run it: in this thread, in another, in a greenlet."""


class LifespanFailed(Exception):
    """An application says that it has not started, or not ended."""


class Stopped(SystemExit):
    """Raised in a step that is over its time, as gunicorn stops a worker that it takes for hung.

    Its text is for the application's log, where a handler of all exceptions may write it.
    """

    def __str__(self) -> str:
        return "pasture's probe has ended a request that was over its time"


class Replay:
    """The steps of one probe. An engine's worker start calls `serve`, or `wsgi` or `asgi`.

    Args:
        pipe: takes a line of JSON for each event.
        stop_at_s: of `perf_counter`, when the probe's whole time is over.
        with_lifespan: start and end an ASGI application around the requests.

    Attributes:
        at_end: what a worker does at its end, however it ends.
    """

    def __init__(
        self,
        served: WarmUpReport,
        expected: Sequence[Expectation],
        pipe: int,
        stop_at_s: float,
        *,
        with_lifespan: bool,
    ) -> None:
        self.at_end: Callable[[], object] = lambda: None
        self._served = served
        self._expected = expected
        self._pipe = pipe
        self._stop_at_s = stop_at_s
        self._with_lifespan = with_lifespan
        self._raised: list[BaseException] = []
        self._where: Callable[[], Sequence[cause.Place]] | None = None
        self._step = WORKERS_START
        self._began_s = perf_counter()
        self._step_ends_s: float | None = None
        self._began_processor_s = 0.0
        self._is_request = False
        self._counts = True
        self._hangs = False
        self._least_s = min(_MIN_S, (stop_at_s - self._began_s) / 2)

    def run(self, play: Callable[[Replay], None]) -> None:
        """Have an engine start its worker, serve the requests and end; report all but the end."""
        own_end.forget_the_parents()
        signal.signal(signal.SIGALRM, self._alarm)
        signal.signal(END_NOW, self._ended)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM, END_NOW))
        _note_logged_exceptions(self._raised)
        self._begin(WORKERS_START, None)
        try:
            play(self)
        except BaseException as error:
            if self._counts:
                self._end({"error": cause.of_exception(error)})
        self._done()
        with contextlib.suppress(BaseException):
            self.at_end()
        own_end.take(hangs=self._hangs)

    def serve(self) -> None:
        """Serve the application in this thread, by its own protocol."""
        application = self._served.application
        assert application is not None
        if self._served.protocol is Protocol.ASGI:
            self.asgi(application)
        else:
            self.wsgi(application)

    def wsgi(self, application: Callable[..., Any], run: Run = lambda call: call()) -> None:
        """Serve the requests through a WSGI application."""
        served = self._served

        def call(expected: Expectation) -> Response:
            environ = wsgi.build_environ(expected.request, served.headers, served.host)
            context = contextvars.copy_context()
            return run(lambda: context.run(wsgi.call, application, environ))

        self._requests(call)
        self._done()

    def asgi(
        self,
        application: Callable[..., Any],
        loop_factory: Callable[[], Any] | None = None,
        *,
        lifespan: bool = True,
    ) -> None:
        """Serve through an ASGI application, between its start and end if the server has them."""
        from pasture.warmup.asgi import Session, build_scope  # asyncio is not loaded for WSGI

        starts = lifespan and self._with_lifespan
        session = Session(application if starts else _without_lifespan(application), loop_factory)
        self._where = lambda: _waits_at(session)
        with self._lifespan("lifespan startup"):
            failed = session.start()
            if failed is not None:
                raise LifespanFailed(failed)
            # One that has none raises, too. One that started in the parent has one.
            if starts and self._served.startup_s is not None and session.raised is not None:
                raise session.raised
        if failed is not None:
            self._done()
            return
        if session.has_lifespan and self._served.startup_s is None:
            # The parent served without what the start makes: its bodies may well be others.
            self._expected = [replace(one, skeletons=frozenset()) for one in self._expected]
        try:
            self._requests(
                lambda expected: session.call(
                    build_scope(expected.request, self._served.headers, self._served.host)
                )
            )
        except Stopped:
            session.end()
            raise
        with self._lifespan("lifespan shutdown"):
            failed = session.end()
            if failed is not None:
                raise LifespanFailed(failed)
        self._done()

    def in_thread_of(self, submit: Callable[[Call], Any]) -> Run:
        """Runs calls by a pool's `submit`; one that hangs is looked for in that thread."""

        def run(call: Call) -> Response:
            def noted() -> Response:
                ident = threading.get_ident()
                self._where = lambda: cause.of_thread(ident)
                return call()

            response: Response = submit(noted).result()
            return response

        return run

    def in_greenlet_of(self, spawn: Callable[[Call], Any]) -> Run:
        """Runs calls by gevent's `spawn`; one that hangs is looked for in that greenlet."""

        def run(call: Call) -> Response:
            greenlet = spawn(call)
            self._where = lambda: cause.of_frame(greenlet.gr_frame)
            response: Response = greenlet.get()
            return response

        return run

    def say(self, event: dict[str, Any]) -> None:
        """Report an event."""
        data = json.dumps(event).encode() + b"\n"
        while data:
            data = data[os.write(self._pipe, data) :]

    def _done(self) -> None:
        """What comes from now on is the worker's end: the parent has a limit for it."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._counts:
            self._counts = False
            self.say({"event": DONE})

    def _begin(self, name: str, limit_s: float | None) -> None:
        """Begin a step, which hangs after a limit; without one after what `_hangs_by_now` says."""
        self._began_s, self._began_processor_s = perf_counter(), process_time()
        self._step = name
        self._step_ends_s = None if limit_s is None else self._began_s + limit_s
        self._is_request = False
        self._raised.clear()
        self.say({"event": BEGIN, "step": name})
        self._look_in(self._least_s if limit_s is None else limit_s)

    def _look_in(self, seconds: float) -> None:
        """Set the alarm after that time, at the latest when the probe's time is over."""
        left_s = self._stop_at_s - perf_counter()
        signal.setitimer(signal.ITIMER_REAL, max(min(seconds, left_s), 0.01))

    def _end(self, event: dict[str, Any]) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._raised:
            event["behind"] = cause.of_exception(self._raised[-1])
        self.say({"event": END, "step": self._step, **event})

    @contextmanager
    def _taken(self, name: str, limit_s: float | None) -> Iterator[dict[str, Any]]:
        """Take a step; the event that says how it ended takes what is put into the dict."""
        event: dict[str, Any] = {}
        self._begin(name, limit_s)
        try:
            yield event
        except Stopped:
            raise
        except BaseException as error:
            event["error"] = cause.of_exception(error)
        if not self._counts:  # the application has caught it
            raise Stopped
        self._end(event)

    def _lifespan(self, name: str) -> AbstractContextManager[dict[str, Any]]:
        return self._taken(name, self._limit(self._served.startup_s))

    def _limit(self, seconds: float | None) -> float | None:
        return None if seconds is None else max(self._least_s, _TIMES * seconds)

    def _requests(self, call: Callable[[Expectation], Response]) -> None:
        for expected in self._expected:
            if perf_counter() >= self._stop_at_s:
                return
            known_s = expected.seconds or 0.0 if expected.has_reference else None
            with self._taken(str(expected.request), self._limit(known_s)) as event:
                self._is_request = True
                event |= _ask(expected, partial(call, expected))

    def _alarm(self, number: int, frame: Any) -> None:
        """The step may be over its time: then say where it is, and have the worker end."""
        if not self._counts:
            return
        over = perf_counter() >= self._stop_at_s
        hangs = self._hangs_by_now(frame, over=over)
        if not hangs and not over:
            self._look_in(math.inf)
            return
        at = self._where() if self._where is not None else ()
        where = cause.where_all(at or cause.of_frame(frame), cause.of_other_threads())
        self.say({"event": HUNG if hangs else OVER, "step": self._step, "where": where})
        self._stop()

    def _hangs_by_now(self, frame: Any, *, over: bool) -> bool:
        """Whether the step hangs: a slow one does not.

        A step of which no time is known hangs where nothing will ever go on. A request hangs, too,
        that has done nothing but wait until the probe's time was over.
        """
        if self._step_ends_s is not None:
            return perf_counter() >= self._step_ends_s
        if cause.waits_for_ever(frame):
            return True
        worked_s = process_time() - self._began_processor_s
        idle = worked_s < _IDLE * (perf_counter() - self._began_s)
        return over and self._is_request and idle

    def _ended(self, number: int, frame: Any) -> None:
        """The server is asked to end."""
        if self._counts:
            self._stop()

    def _stop(self) -> None:
        self._counts, self._hangs = False, True
        raise Stopped


def _ask(expected: Expectation, call: Call) -> dict[str, Any]:
    """Status and skeletons of an answer; of some more where the first is not as expected."""
    first = call()
    seen = {first.skeleton}
    for _ in range(_ASKED_AGAIN):
        if first.status >= 500 or expected.differs(first.status, seen) is None:
            break
        again = call()
        if again.status != first.status:  # the page varies by itself
            return {"status": expected.status, "skeletons": []}
        seen.add(again.skeleton)
    return {"status": first.status, "skeletons": sorted(seen) if expected.skeletons else []}


def _waits_at(session: Session) -> Sequence[cause.Place]:
    """The place where the session's task waits; nowhere if it runs."""
    task = session.under_way
    coroutine = None if task is None else task.get_coro()
    return () if getattr(coroutine, "cr_running", True) else cause.of_coroutine(coroutine)


def _without_lifespan(application: Callable[..., Any]) -> Callable[..., Any]:
    async def served(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise LifespanFailed("left out")
        await application(scope, receive, send)

    return served


def _note_logged_exceptions(raised: list[BaseException]) -> None:
    """Frameworks log the exception that they answer with a 5xx, maybe where no handler listens."""
    handle = logging.Logger.handle

    def noting(logger: logging.Logger, record: logging.LogRecord) -> None:
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            raised.append(record.exc_info[1])
        handle(logger, record)

    logging.Logger.handle = noting  # type: ignore[assignment, method-assign]
