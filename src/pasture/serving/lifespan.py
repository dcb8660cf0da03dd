"""One start of an ASGI application for all workers, in the process that forks.

The parent starts it before the seal, the workers adopt its state, and the parent ends it after the
last of them. Owns the check that the start has left no hazard of a fork behind. If it has, the
parent ends the application again, and each worker starts it as usual.
"""

from __future__ import annotations

import logging
import selectors
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pasture.errors import AppImportFailed, SealFailed
from pasture.fork_safety.close import close_connections
from pasture.fork_safety.event_loop import SurveyedLoop
from pasture.fork_safety.survey import survey
from pasture.log_lines import Log, write_to_log
from pasture.reasons import Hazard
from pasture.warmup.asgi import Application, Session
from pasture.warmup.guard import Guard

_THREADS_END_S = 1.0
_IDLE = "anyio"
"""Classes of executors whose threads wait for work; a worker starts its own."""


def start_once(
    application: Application, *, strict: bool, log: Log = write_to_log
) -> SharedLifespan:
    """Start an application for all workers, which then serve the result of `wrap`.

    Raises AppImportFailed where it cannot start, and SealFailed as `share`.
    """
    lifespan = SharedLifespan(application, log)
    lifespan.start()
    lifespan.share(strict=strict)
    return lifespan


class SharedLifespan:
    """The lifespan of a started application, with a `session` for a warm-up."""

    def __init__(self, application: Application, log: Log = write_to_log) -> None:
        self._log = log
        self._loop = SurveyedLoop(selectors.DefaultSelector())
        self._executor = ThreadPoolExecutor()
        self._loop.loop.set_default_executor(self._executor)
        self._before = {hazard.what for hazard in survey()}
        self._state: Mapping[str, Any] | None = None
        self.session: Session | None = Session(application, lambda: self._loop.loop)

    def start(self) -> None:
        """Start the application, if it has a lifespan, or raise AppImportFailed."""
        assert self.session is not None
        failed = self.session.start()
        if failed is not None:
            raise AppImportFailed(
                f"the application's lifespan: startup: {failed}",
                hint="it was started once for all workers; --lifespan each starts it in each",
            )
        if not self.session.lifespan.waits:
            self._log(logging.INFO, "the application has no lifespan to share")
            self.end()

    def share(self, *, strict: bool) -> None:
        """Have the workers adopt the state, if that is safe. Before the fork, after any warm-up.

        Raises SealFailed if `strict`, and the start has left a hazard of a fork.
        """
        if self.session is None:
            return
        hazards = self._hazards(self.session)
        if not hazards:
            if self._state is None:
                self._log(logging.INFO, "the application was started once, for all workers")
            self._state = self.session.lifespan.state
            return
        self._state = None
        for hazard in hazards:
            self._log(logging.WARNING, f"lifespan: {hazard}")
        self.end()
        self._log(logging.WARNING, "each worker starts the application for itself")
        if strict:
            raise SealFailed(
                f"the application cannot be started once for all workers: {hazards[0].what}",
                hint="\n".join(map(str, hazards)),
            )

    def wrap(self, application: Application) -> Application:
        """The application for the workers; a shared one is already started."""

        async def started(scope: Any, receive: Any, send: Any) -> None:
            if self._state is None or scope["type"] != "lifespan":
                await application(scope, receive, send)
                return
            scope.setdefault("state", {}).update(self._state)
            for what in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{what}.complete"})

        return started

    def end(self) -> None:
        """End a started application, in its process, within 30 s. An ending signal raises
        KeyboardInterrupt.
        """
        session, self.session = self.session, None
        if session is None:
            return
        with Guard() as guard:
            outcome = guard.run("lifespan shutdown", session.end)
        self._executor.shutdown(wait=False)
        failed = outcome.value or outcome.error
        if failed is not None:
            self._log(logging.ERROR, f"the application's lifespan: shutdown: {failed}")

    def _hazards(self, session: Session) -> list[Hazard]:
        close_connections()
        session.settle()
        # Idle threads of the loop's executor are ended; later work starts new ones.
        idle: Collection[threading.Thread] = getattr(self._executor, "_threads", ())
        self._executor.shutdown(wait=False)
        deadline = time.monotonic() + _THREADS_END_S
        for thread in idle:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._executor = ThreadPoolExecutor()
        self._loop.loop.set_default_executor(self._executor)
        new = [one for one in survey() if one.what not in self._before and one.owner != _IDLE]
        return [*self._loop.hazards(session.own), *new]
