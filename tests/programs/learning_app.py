"""A page that builds everything lazily: a module, caches and a regular expression.

Some of them are each worker's own, as a name that has its pid in it.
"""

import functools
import json
import os
import re
import socket
import uuid


@functools.cache
def table():
    pid = os.getpid()
    return {"filled by": lambda: pid}


@functools.cache
def worker_name():
    return f"{os.getpid()}@{socket.gethostname()}"


@functools.lru_cache
def instance():
    return {"id": uuid.uuid4()}


def app(environ, start_response):
    import learned_lazily
    import learned_own

    re.search("learned-[0-9]+", environ["PATH_INFO"])
    answer = {
        "imported by": learned_lazily.imported_by(),
        "filled by": table()["filled by"](),
        "pid": os.getpid(),
        "name": worker_name(),
        "id": str(instance()["id"]),
        "own": learned_own.NAME,
    }
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


class Application:
    """The same, as frameworks have it: an object."""

    def __call__(self, environ, start_response):
        return app(environ, start_response)


application = Application()


async def asgi(scope, receive, send):
    found = []
    body = app({"PATH_INFO": scope["path"]}, lambda *started: found.append(started))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"".join(body)})
