"""An ASGI application whose modules hold what belongs to the loop that first used it."""

import asyncio
import json
import os

LOADED_BY = os.getpid()
kept = {}
starts = 0


async def lifespan(receive, send):
    global starts
    for what in ("startup", "shutdown"):
        await receive()
        if what == "startup":
            starts += 1
            if os.environ.get("PROBED_STARTS_ONCE") and starts > 1:
                raise RuntimeError("it was started before")
        print(f"lifespan {what} in {os.getpid()}", flush=True)
        await send({"type": f"lifespan.{what}.complete"})


async def page(path):
    if path == "/kept":
        future = kept.setdefault("loop", asyncio.get_running_loop()).create_future()
        asyncio.get_running_loop().call_later(0.01, future.set_result, None)
        await future
    elif path == "/hang" and os.getpid() != LOADED_BY:
        await asyncio.sleep(3600)
    return {"pid": os.getpid()}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    answer = await page(scope["path"])
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})
