"""`soak_work` for an ASGI server: the path is the number."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from soak_work import work


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    loop = asyncio.get_running_loop()
    body = json.dumps(await loop.run_in_executor(None, work, int(scope["path"][1:]))).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
