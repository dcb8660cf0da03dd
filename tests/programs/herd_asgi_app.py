"""An ASGI application that reports which processes served it, and when it was started and ended."""

import json
import os

SERVED_BY = []
LIFE = []


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for what in ("startup", "shutdown"):
            await receive()
            LIFE.append([what, os.getpid()])
            if what == "shutdown":
                print(f"ended in {os.getpid()}", flush=True)
            await send({"type": f"lifespan.{what}.complete"})
        return
    SERVED_BY.append(os.getpid())
    seen = {"pid": os.getpid(), "served_by": SERVED_BY, "life": LIFE}
    body = json.dumps(seen).encode()
    length = str(len(body)).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
    )
    await send({"type": "http.response.body", "body": body})
