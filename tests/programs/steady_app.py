"""A WSGI application with a heap to share, steady pages, and pages that are never the same.

`asgi` is the same for a server of ASGI applications, without a trace and without /cookie.

    /, /sum          the same body each time
    /changing        another body each time
    /start           a body drawn at start: the same within a run, another in the next
    /policy          the policy's name: the same within a run, and a real difference
    /only-stock      200 under stock, 404 under any other policy
    /cookie          the cookie that was sent

Environment:
    APP_OBJECTS: how many small objects the parent builds (default 20000).
    APP_TRACE: file that gets a line `PID METHOD PATH COOKIE` for each request.
"""

import itertools
import os
import uuid
from pathlib import Path

_SIZE = int(os.environ.get("APP_OBJECTS", "20000"))
_SHELF = [{"number": i, "name": f"object {i}"} for i in range(_SIZE)]
_COUNT = itertools.count()
_START = uuid.uuid4()
_POLICY = os.environ.get("PASTURE_POLICY", "none")


def application(environ, start_response):
    _trace(environ)
    body = _body(environ)
    status = "404 Not Found" if body is None else "200 OK"
    start_response(status, [("Content-Type", "text/plain")])
    return [(body or "no such page").encode()]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError("it has no lifespan")
    body = _body({"PATH_INFO": scope["path"]})
    status = 404 if body is None else 200
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": (body or "no such page").encode()})


def _body(environ):
    match environ["PATH_INFO"]:
        case "/":
            return f"{len(_SHELF)} objects"
        case "/sum":
            return str(sum(thing["number"] for thing in _SHELF))
        case "/changing":
            return f"answer {next(_COUNT)} of process {os.getpid()}"
        case "/start":
            return f"started as {_START}"
        case "/policy":
            return f"running under {_POLICY}"
        case "/only-stock":
            return "here" if _POLICY == "stock" else None
        case "/cookie":
            return environ.get("HTTP_COOKIE", "none")
    return None


def _trace(environ):
    if "APP_TRACE" in os.environ:
        cookie = environ.get("HTTP_COOKIE", "-")
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with Path(os.environ["APP_TRACE"]).open("a") as file:
            file.write(f"{os.getpid()} {method} {path} {cookie}\n")
