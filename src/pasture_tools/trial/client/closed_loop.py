"""Sends a list of requests in a closed loop: each user has one under way, and then the next.

    closed_loop.py SETTINGS

SETTINGS is a file of JSON, as `load` writes it. All users take their next request
from one list, in its order and over again, so that every policy gets the same N requests. One
thread waits for all connections, which costs less of a processor than a thread for each.

A connection is kept as long as the server keeps it. Where the server closes one silently as the
next request is sent, the request is sent again over a new one; a request that must not be carried
out twice (POST, PATCH) gets a new one from the start. A user keeps its cookies, unless the list
names some.

Source: RFC 9110, section 9.2.2; RFC 9112, section 9.3.1.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from pasture_tools.trial.client.answer import Answer, Malformed
    from pasture_tools.trial.client.cookies import Cookies
    from pasture_tools.trial.client.record import Exchange, Record, load_skeleton
else:  # a program by itself, which finds only the standard library
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120
    from answer import Answer, Malformed
    from cookies import Cookies
    from record import Exchange, Record, load_skeleton

import gc
import json
import resource
import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from errno import EINPROGRESS

_LOOK_S = 0.1  # between two looks at requests that take too long
_RECEIVE_BYTES = 1 << 16
_REPEATABLE = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"))
_HAVE_A_BODY = frozenset(("POST", "PUT", "PATCH"))
_DESCRIPTORS = 64  # besides the connections


class Silence(ConnectionError):
    """The server closed a connection without an answer."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request of the list, ready to be sent."""

    method: str
    path: str
    url: str  # the URL, for cookies
    head: bytes  # without cookies, and without the empty line at its end
    keeps_cookies: bool  # it has no cookies of its own
    keeps_alive: bool  # the request allows to keep the connection


def prepare(method: str, path: str, headers: Sequence[tuple[str, str]], host: str) -> Sent:
    """The bytes of a request; `host` replaces a missing header of that name."""
    given = {name.lower(): value for name, value in headers}
    defaults = {"Host": host, "Accept-Encoding": "gzip, deflate"}
    if method in _HAVE_A_BODY:
        defaults["Content-Length"] = "0"
    added = [(name, value) for name, value in defaults.items() if name.lower() not in given]
    lines = [f"{method} {path} HTTP/1.1", *(f"{n}: {v}" for n, v in (*added, *headers))]
    # Behind a proxy that speaks TLS, as a header may say, cookies are for that alone.
    url = f"https://{given.get('host', host)}{path}"
    head = "".join(f"{line}\r\n" for line in lines).encode("latin-1")
    keeps_alive = "close" not in given.get("connection", "").lower()
    return Sent(method, path, url, head, "cookie" not in given, keeps_alive)


class User:
    """A simulated user: its connection, its cookies, and the request that is under way."""

    __slots__ = (
        "answer", "began", "cookies", "is_reused", "request", "socket", "unsent", "waits_to_write",
    )  # fmt: skip

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.cookies = Cookies()
        self.request: Sent | None = None  # the request under way, or None
        self.answer = Answer("")
        self.began = 0.0
        self.unsent = b""
        self.waits_to_write = False
        self.is_reused = False  # the connection has carried another request before

    def whole_request(self) -> bytes:
        """The bytes of the request."""
        request = self.request
        assert request is not None
        line = self.cookies.line_for(request.url) if request.keeps_cookies else b""
        return b"%b%b\r\n" % (request.head, line)


class ClosedLoop:
    """N requests of a list, sent by some users to one port of the loopback interface."""

    def __init__(
        self,
        walk: Sequence[Sent],
        address: tuple[str, int],
        *,
        requests: int,
        users: int,
        timeout_s: float,
        record: Record,
    ) -> None:
        self._walk, self._address = walk, address
        self._requests, self._timeout_s, self._record = requests, timeout_s, record
        self._sent = 0
        self._users = [User() for _ in range(min(users, requests))]
        self._ready = deque(self._users)
        self._by_descriptor: dict[int, User] = {}
        self._poll = select.epoll()

    def run(self) -> None:
        """Send all requests; each ends by an answer, an error, or its timeout."""
        next_look = time.perf_counter() + _LOOK_S
        while self._ready or self._by_descriptor:
            for _ in range(len(self._ready)):
                self._start_next(self._ready.popleft())
            timeout_s = 0.0 if self._ready else _LOOK_S
            for descriptor, _ in self._poll.poll(timeout_s) if self._by_descriptor else ():
                self._go_on(self._by_descriptor[descriptor])
            now = time.perf_counter()
            if now >= next_look:
                for user in self._users:
                    if user.request is not None and now - user.began > self._timeout_s:
                        user.is_reused = False
                        self._fail(user, TimeoutError(f"no answer in {self._timeout_s:g} s"), True)
                next_look = now + _LOOK_S

    def _start_next(self, user: User) -> None:
        if self._sent == self._requests:
            self._disconnect(user)
            return
        user.request = self._walk[self._sent % len(self._walk)]
        self._sent += 1
        user.began = time.perf_counter()
        if user.request.method not in _REPEATABLE:
            self._disconnect(user)
        self._send(user)

    def _send(self, user: User) -> None:
        """Send the request of a user, over a new connection if it has no open one."""
        assert user.request is not None
        user.answer = Answer(user.request.method)
        user.unsent = user.whole_request()
        user.is_reused = user.socket is not None
        try:
            if user.socket is None:
                self._connect(user)
            else:
                self._write(user)
        except OSError as error:
            self._fail(user, error)

    def _connect(self, user: User) -> None:
        user.socket = connection = socket.socket()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._poll.register(connection, select.EPOLLIN)
        self._by_descriptor[connection.fileno()] = user
        code = connection.connect_ex(self._address)
        if code == EINPROGRESS:
            self._wait_to_write(user, True)
        elif code:
            raise OSError(code, os.strerror(code))
        else:
            self._write(user)

    def _write(self, user: User) -> None:
        assert user.socket is not None
        try:
            user.unsent = user.unsent[user.socket.send(user.unsent) :]
        except BlockingIOError:
            pass
        self._wait_to_write(user, bool(user.unsent))

    def _wait_to_write(self, user: User, waits: bool) -> None:
        if user.waits_to_write != waits:
            assert user.socket is not None
            user.waits_to_write = waits
            self._poll.modify(user.socket, select.EPOLLIN | (select.EPOLLOUT if waits else 0))

    def _go_on(self, user: User) -> None:
        """Go on with a connection that may be read or written to, or that has ended."""
        assert user.socket is not None
        if user.request is None:  # it ended, or sent bytes that were not asked for
            self._disconnect(user)
            return
        try:
            if user.waits_to_write:
                code = user.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    raise OSError(code, os.strerror(code))
                self._write(user)
            data = user.socket.recv(_RECEIVE_BYTES)
            if data:
                if user.answer.feed(data):
                    self._succeed(user)
            elif user.answer.has_started:
                user.answer.end()
                self._succeed(user)
            else:
                raise Silence("the server closed the connection without an answer")
        except BlockingIOError:
            pass
        except (OSError, Malformed) as error:
            self._fail(user, error)

    def _succeed(self, user: User) -> None:
        request, answer = user.request, user.answer
        assert request is not None
        latency_ms = (time.perf_counter() - user.began) * 1000
        if answer.set_cookies and request.keeps_cookies:
            user.cookies.take(request.url, answer.set_cookies)
        try:
            content = answer.content
        except ValueError:
            content = None
        self._note(
            user,
            Exchange(
                request.method, request.path, latency_ms, answer.status, content,
                answer.headers.get("content-type", ""),
            ),
        )  # fmt: skip
        if not (answer.keeps_alive and request.keeps_alive) or user.unsent:
            self._disconnect(user)

    def _fail(self, user: User, error: Exception, timed_out: bool = False) -> None:
        request = user.request
        assert request is not None
        self._disconnect(user)
        if isinstance(error, ConnectionError) and user.is_reused and not user.answer.has_started:
            self._send(user)  # it was closed before the request came; now the connection is new
            return
        latency_ms = (time.perf_counter() - user.began) * 1000
        words = (isinstance(error, OSError) and error.strerror) or str(error)
        if isinstance(error, Malformed):
            words = f"malformed answer: {error}"
        self._note(
            user,
            Exchange(
                request.method, request.path, latency_ms, error=words, timed_out=timed_out
            ),
        )  # fmt: skip

    def _note(self, user: User, outcome: Exchange) -> None:
        self._record.add(outcome)
        user.request = None
        self._ready.append(user)

    def _disconnect(self, user: User) -> None:
        if user.socket is not None:
            del self._by_descriptor[user.socket.fileno()]
            user.socket.close()  # closing also removes it from the poll
            user.socket = None
            user.waits_to_write = False


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        settings = json.load(file)
    host, port = settings["address"]
    walk = [
        prepare(method, path, headers, f"{host}:{port}")
        for method, path, headers in settings["walk"]
    ]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings["users"] + _DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    record = Record(settings["progress_file"], load_skeleton())
    gc.freeze()
    ClosedLoop(
        walk,
        (host, port),
        requests=settings["requests"],
        users=settings["users"],
        timeout_s=settings["request_timeout_s"],
        record=record,
    ).run()
    record.write(settings["result_file"])


if __name__ == "__main__":
    main(sys.argv[1])
