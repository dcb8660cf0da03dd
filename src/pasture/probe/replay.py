"""The child's side of the probe: it serves the requests, a step at a time, and reports each step.

Owns the alarm that stops a step over its limit. The process ends afterwards, so no change is
undone. It ends as a worker does, so that all that it has started is ended. Invariant: each request
is sent once, and none after a failure.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
import signal
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pasture.probe import cause, own_end
from pasture.probe.expectation import LIMIT_S, SERVER_ERROR, Expectation, limit_s
from pasture.warmup import wsgi
from pasture.warmup.protocol import Protocol
from pasture.warmup.requests import Request
from pasture.warmup.warmup import WarmUpReport

if TYPE_CHECKING:
    from pasture.warmup.asgi import Session

BEGIN, ANSWER, FAILED, DONE = "begin", "answer", "failed", "done"
"""Events, each with its values. The last two end the replay: the worker's end follows."""

END_NOW = signal.SIGRTMAX - 6
"""Signal to a probe whose server is asked to end."""

Call = Callable[[], int]
Run = Callable[[Call], int]
"""Runs a call where a worker would: in this thread, in another, in a greenlet."""


class LifespanFailed(Exception):
    """The application reports that its start failed."""


class Stopped(SystemExit):
    """Raised in a step over its limit, as gunicorn does in a worker that hangs.

    Its text may appear in the application's log.
    """

    def __str__(self) -> str:
        return "pasture's probe has ended a request over its time limit"


class Replay:
    """The steps of one probe. An engine's worker start calls `serve`, or `wsgi` or `asgi`.

    Args:
        pipe: takes a line of JSON for each event.
        stop_at_s: of `perf_counter`, when no more requests are sent.

    Attributes:
        at_end: a worker's last call, after any end.
        places: the places of the step, if it runs elsewhere than in this thread.
    """

    def __init__(
        self, served: WarmUpReport, expected: Sequence[Expectation], pipe: int, stop_at_s: float
    ) -> None:
        self.at_end: Callable[[], object] = lambda: None
        self.places: Callable[[], cause.Places] = lambda: ()
        self._served = served
        self._expected = expected
        self._pipe = pipe
        self._stop_at_s = stop_at_s
        self._counts = True
        self._hangs = False

    def run(self, play: Callable[[Replay], None]) -> None:
        """Have an engine start its worker, serve the requests and end; reports up to the end."""
        own_end.forget_the_parents()
        signal.signal(signal.SIGALRM, self._alarm)
        signal.signal(END_NOW, self._ended)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM, END_NOW))
        self._begin("the worker's start", LIMIT_S)
        try:
            play(self)
        except BaseException as error:
            self._end(FAILED, f"raises {cause.of_exception(error)}")
        self._end(DONE)
        with contextlib.suppress(BaseException):
            self.at_end()
        own_end.take(hangs=self._hangs)

    def serve(self) -> None:
        """Serve the application in this thread, by its own protocol."""
        application = self._served.application
        assert application is not None
        (self.asgi if self._served.protocol is Protocol.ASGI else self.wsgi)(application)

    def wsgi(self, application: Callable[..., Any], run: Run = lambda call: call()) -> None:
        """Serve the requests through a WSGI application."""

        def call(request: Request) -> int:
            environ = wsgi.build_environ(request, self._served.headers, self._served.host)
            context = contextvars.copy_context()
            return run(lambda: context.run(wsgi.call, application, environ))

        self._requests(call)

    def asgi(
        self,
        application: Callable[..., Any],
        loop_factory: Callable[[], Any] | None = None,
        *,
        lifespan: bool = True,
    ) -> None:
        """Serve through an ASGI application, between its start and end if the server runs them."""
        from pasture.warmup.asgi import Session, build_scope  # asyncio is not loaded for WSGI

        session = Session(application, loop_factory)
        self.places = lambda: _waits_at(session)
        started_s = self._served.startup_s
        self._begin("lifespan startup", limit_s(started_s))
        failed = session.start() if lifespan else session.open()
        if failed is not None:
            raise LifespanFailed(failed)
        # An application without a lifespan raises, too. One that started in the parent has one.
        if lifespan and started_s is not None and session.lifespan.raised is not None:
            raise session.lifespan.raised
        try:
            self._requests(
                lambda request: session.call(
                    build_scope(request, self._served.headers, self._served.host)
                )
            )
        finally:
            (session.end if lifespan else session.close)()

    def _requests(self, call: Callable[[Request], int]) -> None:
        for expected in self._expected:
            if perf_counter() >= self._stop_at_s:
                break
            self._begin(str(expected.request), limit_s(expected.seconds))
            try:
                status = call(expected.request)
            except Exception as error:
                self._end(FAILED, f"raises {cause.of_exception(error)}")
                return
            if not self._counts:  # the application has caught `Stopped`
                raise Stopped
            if status >= SERVER_ERROR:
                self._end(FAILED, f"answers {status}")
                return
            self._say(ANSWER, expected.differs(status))
        self._end(DONE)

    def _say(self, *event: object) -> None:
        data = json.dumps(event).encode() + b"\n"
        while data:
            data = data[os.write(self._pipe, data) :]

    def _begin(self, step: str, limit_s: float) -> None:
        self._say(BEGIN, step, limit_s)
        signal.setitimer(signal.ITIMER_REAL, limit_s)

    def _end(self, *event: str) -> None:
        """Report the last event: the worker's end follows, for which the parent has a limit."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._counts:
            self._counts = False
            self._say(*event)

    def _alarm(self, number: int, frame: Any) -> None:
        """Handle a step over its limit: report its place, and have the worker end."""
        if self._counts:
            places = self.places() or cause.of_frame(frame)
            self._end(FAILED, f"hung in {cause.where_all(places)}")
            self._hangs = True
            raise Stopped

    def _ended(self, *_: Any) -> None:
        """Handle the server's request to end."""
        if self._counts:
            self._counts, self._hangs = False, True
            raise Stopped


def _waits_at(session: Session) -> cause.Places:
    """The places where the session's task waits; empty if it runs."""
    task = session.under_way
    coroutine = None if task is None else task.get_coro()
    return () if getattr(coroutine, "cr_running", True) else cause.of_coroutine(coroutine)
