"""One request served by a WSGI application object, without a server around it.

Owns the environ (PEP 3333, with gunicorn's additions that applications read) and the protocol of
the call. The caller is a pre-fork parent: `wsgi.multiprocess` is True.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any
from urllib.parse import unquote_to_bytes

from pasture.warmup.requests import USER_AGENT, Header, Request

BODY_LIMIT_BYTES = 16 * 2**20
"""Limit of a response, so that an endless one does not prevent the server's start."""

_NOT_HTTP_HEADERS = ("CONTENT_TYPE", "CONTENT_LENGTH")

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def build_environ(request: Request, headers: Iterable[Header], host: str) -> dict[str, Any]:
    """The environ of a request from this machine without a body; `host` is the default host."""
    path, _, query = request.path.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "RAW_URI": request.path,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_SOFTWARE": "pasture",
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_PORT": "0",
        "HTTP_HOST": host,
        "HTTP_USER_AGENT": USER_AGENT,
        "HTTP_ACCEPT": "*/*",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": request.scheme,
        "wsgi.input": io.BytesIO(),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in headers:
        key = name.upper().replace("-", "_")
        environ[key if key in _NOT_HTTP_HEADERS else f"HTTP_{key}"] = value
    if request.host is not None:
        environ["HTTP_HOST"] = request.host
    name, port = split_host(environ["HTTP_HOST"], request.scheme)
    return environ | {"SERVER_NAME": name, "SERVER_PORT": port}


def call(application: Callable[..., Any], environ: dict[str, Any]) -> int:
    """Serve one request: call, read the body, always close the response; returns the status.

    RuntimeError: the application did not call `start_response`.
    """
    response = _Sent()
    body = application(environ, response.start)
    try:
        for chunk in body:
            response.write(chunk)
            if response.body_bytes > BODY_LIMIT_BYTES:
                break
    finally:
        if hasattr(body, "close"):
            body.close()
    if response.status is None:
        raise RuntimeError("the application did not call start_response")
    return int(response.status.split()[0])


class _Sent:
    """The server's side of `start_response`."""

    def __init__(self) -> None:
        self.status: str | None = None
        self.body_bytes = 0

    def start(
        self, status: str, headers: list[Header], exc_info: ExceptionInfo | None = None
    ) -> Callable[[bytes], None]:
        # An error page may replace an answer before it is sent.
        if exc_info is not None and self.body_bytes:
            raise exc_info[1].with_traceback(exc_info[2])
        self.status = status
        return self.write

    def write(self, chunk: bytes) -> None:
        self.body_bytes += len(chunk)


def split_host(host: str, scheme: str) -> tuple[str, str]:
    """Name and port of a `Host` header; an IPv6 address keeps its brackets."""
    name, colon, port = host.rpartition(":")
    if colon and port.isdecimal():
        return name, port
    return host, "443" if scheme == "https" else "80"
