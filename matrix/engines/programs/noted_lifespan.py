"""An ASGI application that notes each start and end of its lifespan, and each request that began.

The file is NOTES. A request to /slow takes a second.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any


def note(what: str) -> None:
    with open(os.environ["NOTES"], "a") as notes:  # noqa: PTH123
        notes.write(f"{what}\n")


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        for what in ("startup", "shutdown"):
            await receive()
            await asyncio.sleep(0.05)
            note(what)
            await send({"type": f"lifespan.{what}.complete"})
        return
    note("asked")
    if scope["path"] == "/slow":
        await asyncio.sleep(1)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"1"})
