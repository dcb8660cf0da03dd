"""A small HTTP server for one text: `GET` of any path answers what a function returns.

Owns the limits of connections at once, of the bytes of a request and of its time: every host that
reaches the port may connect. A client that is slow or silent loses its connection. A client delays
another one at most by one reading. Replaces prometheus_client's `start_http_server`, which starts a
thread for each connection, limits neither connections nor time, and reads the server's processes
for each request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_CONNECTIONS = 64
MAX_BYTES = 8192
"""Limit of a request with its headers."""

CONNECTION_S = 5.0
KEPT_S = 1.0
"""How long a reading answers further requests."""

_LOOK_S = 1.0


@dataclass(slots=True)
class Reading:
    """The latest text, read at most once a second and by one thread at a time."""

    read: Callable[[], bytes]
    kept_s: float = KEPT_S
    _text: bytes = b""
    _read_at: float = float("-inf")
    _underway: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """The latest text, read again if it is too old."""
        if time.monotonic() - self._read_at < self.kept_s:
            return self._text
        if self._underway is None or self._underway.done():
            self._underway = asyncio.create_task(self._gather())
        return await asyncio.shield(self._underway)

    async def _gather(self) -> bytes:
        self._text = await asyncio.to_thread(self.read)
        self._read_at = time.monotonic()
        return self._text


@dataclass(slots=True)
class Listener:
    """Answers connections, as many at once as the limit allows."""

    reading: Reading
    content_type: str  # type of the text, for the header
    connection_s: float = CONNECTION_S
    _open: dict[asyncio.Task[None], None] = field(default_factory=dict)

    async def serve(
        self, host: str, port: int, ready: Callable[[int], None], wanted: Callable[[], bool]
    ) -> None:
        """Listen while `wanted` returns true, checked every second.

        Args:
            ready: called with the port once connections are accepted.

        Raises:
            OSError: the address cannot be listened on.
        """
        server = await asyncio.start_server(self._connected, host, port, limit=MAX_BYTES)
        try:
            ready(server.sockets[0].getsockname()[1])
            while wanted():
                await asyncio.sleep(_LOOK_S)
        finally:
            server.close()
            for task in list(self._open):
                task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= MAX_CONNECTIONS:
            next(iter(self._open)).cancel()  # the oldest, which had the most time
        self._open[task] = None
        try:
            async with asyncio.timeout(self.connection_s):
                writer.write(await self._answer(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            self._open.pop(task, None)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response("431 Request Header Fields Too Large")
        method = head.partition(b" ")[0]
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed")
        try:
            text = await self.reading.text()
        except Exception as error:  # the next request may find it fixed
            return _response("503 Service Unavailable", f"{error}\n".encode())
        return _response("200 OK", text, self.content_type, with_body=method == b"GET")


def _response(
    status: str, body: bytes = b"", content_type: str = "text/plain", *, with_body: bool = True
) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
