"""Requests served by an ASGI application object, without a server around it.

Owns the event loop of a warm-up, the lifespan around its requests and the HTTP scope (ASGI
3.0, https://asgi.readthedocs.io). Invariant: when a `Session` has ended, its loop is closed, with
all that requests have opened on it. Objects that still belong to it are reported.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from pasture.fork_safety import closed_loop, event_loop
from pasture.reasons import Hazard
from pasture.warmup.requests import USER_AGENT, Header, Request
from pasture.warmup.wsgi import BODY_LIMIT_BYTES, split_host

Message = MutableMapping[str, Any]
Application = Callable[..., Awaitable[None]]

_VERSIONS = {"version": "3.0", "spec_version": "2.4"}


class ResponseTooLong(OSError):
    """Raised in an application that sends too much, as for a client that has disconnected."""


def build_scope(request: Request, headers: Iterable[Header], host: str) -> dict[str, Any]:
    """The scope of a request from this machine without a body; `host` is the default host."""
    path, _, query = request.path.partition("?")
    carried = {"host": host, "user-agent": USER_AGENT, "accept": "*/*"}
    carried |= {name.lower(): value for name, value in headers}
    if request.host is not None:
        carried["host"] = request.host
    name, port = split_host(carried["host"], request.scheme)
    return {
        "type": "http",
        "asgi": _VERSIONS,
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path.encode("latin-1", "replace"),
        "query_string": query.encode("latin-1", "replace"),
        "root_path": "",
        "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in carried.items()],
        "client": ("127.0.0.1", 0),
        "server": (name, int(port)),
    }


class Session:
    """An event loop, and the requests that an application serves on it.

    `start` and `end` start and end the application around them: its lifespan closes what it has
    opened, as in a worker that ends. An application without a lifespan is served without one. With
    `open` and `close` its lifespan is left alone.

    Attributes:
        lifespan: the application's.
    """

    def __init__(
        self,
        application: Application,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        self._application = application
        self._runner = asyncio.Runner(loop_factory=loop_factory)
        self.lifespan = Lifespan(application)
        self._exchange: _Exchange | None = None
        self._left: tuple[closed_loop.Loop, event_loop.Closed] | None = None

    @property
    def under_way(self) -> asyncio.Task[Any] | None:
        """The task of the latest request, or that of the lifespan before the first."""
        return self.lifespan.task if self._exchange is None else self._exchange.task

    @property
    def own(self) -> tuple[object, ...]:
        """Objects of this session that hold the event loop."""
        return (self._runner, *self.lifespan.own)

    def settle(self) -> None:
        """Let the loop run ready tasks, and close idle connections. Not before the start."""
        self._runner.run(event_loop.close_usable())

    def open(self) -> str | None:
        """Make a loop, without the lifespan; returns None, or why not: one runs already."""
        return self._begin(asyncio.sleep(0))

    def start(self) -> str | None:
        """Start the application; returns None, or why it failed, with all closed again."""
        try:
            return self._begin(self.lifespan.start())
        finally:
            if not self.lifespan.started:
                self.close()

    def _begin(self, step: Coroutine[Any, Any, str | None]) -> str | None:
        try:
            return self._runner.run(step)
        except RuntimeError as error:
            step.close()
            return str(error)

    def end(self) -> str | None:
        """End the application and close the loop; returns None, or the application's error."""
        try:
            return self._runner.run(self.lifespan.end())
        finally:
            self.close()

    def close(self) -> None:
        """Close the loop, and all that is open on it."""
        closing = event_loop.close_all(self.lifespan.own)
        loop = weakref.ref(self._runner.get_loop())
        closed = event_loop.Closed()
        try:
            closed = self._runner.run(closing)
        except RuntimeError:  # another loop runs in this thread: ours was not used
            closing.close()
        finally:
            self._runner.close()
            self.lifespan.forget()
            self._exchange = None
            self._left = loop, closed

    def look_back(self) -> tuple[Hazard, ...]:
        """Objects that belong to the loop after its end, and tasks that ran on it. Collects
        garbage.
        """
        return closed_loop.leave(*self._left) if self._left is not None else ()

    def call(self, scope: dict[str, Any]) -> int:
        """Serve one request to its end, in a copy of the context; returns the status.

        Raises the application's errors, or RuntimeError if it sent no answer.
        """
        scope["state"] = dict(self.lifespan.state)
        self._exchange = exchange = _Exchange()
        served = exchange.run(self._application, scope)
        try:
            self._runner.run(served, context=contextvars.copy_context())
        finally:
            if exchange.task is not None:  # its leftovers end when the loop runs next
                exchange.task.cancel()
        if exchange.status is None:
            raise RuntimeError("the application sent no answer")
        return exchange.status


class _Exchange:
    """The server's side of one request: an empty body, and an answer that is read and discarded."""

    def __init__(self) -> None:
        self.status: int | None = None
        self._body_bytes = 0
        self._asked = False
        self._answered = asyncio.Event()
        self.task: asyncio.Task[Any] | None = None

    async def run(self, application: Application, scope: dict[str, Any]) -> None:
        self.task = asyncio.current_task()
        try:
            await application(scope, self._receive, self._send)
        except ResponseTooLong:
            pass
        finally:
            self._answered.set()

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._answered.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self._body_bytes += len(message.get("body", b""))
            if self._body_bytes > BODY_LIMIT_BYTES:
                raise ResponseTooLong(f"more than {BODY_LIMIT_BYTES} bytes")
            if not message.get("more_body"):
                self._answered.set()


class Lifespan:
    """The server's side of the lifespan protocol, for applications that have one.

    Attributes:
        raised: the application's exception, which may mean that it has no lifespan.
        state: filled by the application.
    """

    def __init__(self, application: Application) -> None:
        self.state: dict[str, Any] = {}
        self._application = application
        self._to_application: asyncio.Queue[Message] = asyncio.Queue()
        self._from_application: asyncio.Queue[Message] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None
        self.started = False
        self.raised: BaseException | None = None

    @property
    def own(self) -> tuple[object, ...]:
        return (self.task, self._to_application, self._from_application)

    @property
    def waits(self) -> bool:
        """Whether the application has started and waits to be asked to end."""
        return self.started and self.task is not None and not self.task.done()

    def forget(self) -> None:
        """Drop references to the loop, after its end."""
        self.task = None
        self._to_application, self._from_application = asyncio.Queue(), asyncio.Queue()

    async def start(self) -> str | None:
        """Returns why it failed, where the application says so."""
        scope = {"type": "lifespan", "asgi": _VERSIONS, "state": self.state}
        self.task = asyncio.create_task(self._run(scope))
        failed = await self._announce("startup", self.task)
        self.started = failed is None
        return failed

    async def end(self) -> str | None:
        """Returns why it failed, where the application says so."""
        if self.task is None:
            return None
        failed = await self._announce("shutdown", self.task)
        if failed is None:
            await self.task
        return failed

    async def _run(self, scope: dict[str, Any]) -> None:
        try:
            await self._application(scope, self._to_application.get, self._from_application.put)
        except Exception as error:  # how an application says that it has no lifespan
            self.raised = error

    async def _announce(self, what: str, task: asyncio.Task[None]) -> str | None:
        await self._to_application.put({"type": f"lifespan.{what}"})
        answer = asyncio.create_task(self._from_application.get())
        await asyncio.wait({answer, task}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
        elif answer.result()["type"] == f"lifespan.{what}.failed":
            return str(answer.result().get("message") or "failed")
        return None
