"""A page that builds everything lazily: a module, a cache and a regular expression."""

import functools
import json
import os
import re


@functools.cache
def table():
    return {"filled by": os.getpid()}


def app(environ, start_response):
    import learned_lazily

    re.search("learned-[0-9]+", environ["PATH_INFO"])
    answer = {"imported by": learned_lazily.PID, "pid": os.getpid(), **table()}
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
