"""A page that builds everything lazily: modules and a regular expression."""

import json
import os
import re


def app(environ, start_response):
    import learned_lazily
    import learned_own

    re.search("learned-[0-9]+", environ["PATH_INFO"])
    answer = {
        "imported by": learned_lazily.imported_by(),
        "pid": os.getpid(),
        "own": learned_own.NAME,
    }
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


async def asgi(scope, receive, send):
    found = []
    body = app({"PATH_INFO": scope["path"]}, lambda *started: found.append(started))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"".join(body)})
