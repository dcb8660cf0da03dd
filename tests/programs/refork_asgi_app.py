"""An ASGI application whose worker may become a mold, and what stands in its way.

The file `mood` says how its lifespan ends. Each request with a body is written to the file
`served`, one line each.
"""

import asyncio
import functools
import json
import os
import socket
import threading
import time
from urllib.parse import unquote

CACHE = {}
LIFE = []
KEPT = []
LOCK = asyncio.Lock()


@functools.cache
def peer():
    return socket.create_server(("127.0.0.1", 0))


def mood():
    try:
        with open("mood") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def private_kb():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_"))


async def who(query, body):
    loop = type(asyncio.get_running_loop()).__module__
    return {
        **{"pid": os.getpid(), "parent": os.getppid(), "cache": len(CACHE), "life": LIFE},
        **{"loop": loop, "private_kb": private_kb()},
    }


async def grow(query, body):
    """Build what is built lazily: 20,000 records, once."""
    if not CACHE:
        CACHE.update({i: [f"record {i}"] for i in range(20_000)})
    return await who(query, body)


async def serve(query, body):
    await asyncio.sleep(0.005)
    with open("served", "a") as file:
        file.write(f"{body} {os.getpid()}\n")
    return {"id": body}


async def sleep(query, body):
    await asyncio.sleep(float(query))
    return await who(query, body)


async def lock(query, body):
    """Have a lock of the module waited for: it then belongs to this loop."""

    async def hold():
        async with LOCK:
            await asyncio.sleep(0)

    await asyncio.gather(hold(), hold())
    return await who(query, body)


async def executor(query, body):
    await asyncio.to_thread(sum, [1])
    return await who(query, body)


async def busy_executor(query, body):
    KEPT.append(asyncio.get_running_loop().run_in_executor(None, time.sleep, 600))
    return await who(query, body)


OF_THREAD = threading.local()


class Client:
    """A connection, and an object that knows its owner: garbage once its thread has ended."""

    def __init__(self):
        self.socket = socket.create_connection(peer().getsockname())
        self.owner = self


async def synchronous(query, body):
    """Code in asgiref's thread, as Channels calls it: without a context of its own."""
    from asgiref.sync import sync_to_async

    def ask():
        if not hasattr(OF_THREAD, "client"):
            OF_THREAD.client = Client()

    await sync_to_async(ask)()
    return await who(query, body)


async def task(query, body):
    """Start what never ends by itself."""
    KEPT.append(asyncio.create_task(asyncio.sleep(3600)))
    return await who(query, body)


async def stubborn():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


async def stubborn_task(query, body):
    KEPT.append(asyncio.create_task(stubborn()))
    return await who(query, body)


async def thread(query, body):
    threading.Thread(target=time.sleep, args=(600,), name="exporter", daemon=True).start()
    return await who(query, body)


async def connect(query, body):
    """Open a connection that stays."""
    KEPT.append(await asyncio.open_connection(*peer().getsockname()))
    return await who(query, body)


async def keep_loop(query, body):
    """What a client with a session does."""
    KEPT.append(Session(asyncio.get_running_loop()))
    return await who(query, body)


class Session:
    def __init__(self, loop):
        self.loop = loop


PAGES = {
    f"/{page.__name__}": page
    for page in (
        *(who, grow, serve, sleep, lock, executor, busy_executor, task, stubborn_task, thread),
        *(connect, keep_loop, synchronous),
    )
}


async def lifespan(receive, send):
    await receive()
    if mood() == "does not start" and LIFE:
        await send({"type": "lifespan.startup.failed", "message": "broken on purpose"})
        return
    LIFE.append(os.getpid())
    await send({"type": "lifespan.startup.complete"})
    await receive()
    print(f"lifespan ended in {os.getpid()}", flush=True)
    if mood() == "hangs":
        await asyncio.sleep(600)
    await send({"type": "lifespan.shutdown.complete"})


async def stream(query, send):
    """A response with a chunk each tenth of a second."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for number in range(int(float(query) * 10)):
        body = f"{number}\n".encode()
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.sleep(0.1)
    await send({"type": "http.response.body", "body": b"end"})


async def echo(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": f"{os.getpid()} {message['text']}"})


async def read(receive):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body.decode()


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    if scope["type"] == "websocket":
        await echo(receive, send)
        return
    query = unquote(scope["query_string"].decode())
    if scope["path"] == "/stream":
        await stream(query, send)
        return
    body = json.dumps(await PAGES[scope["path"]](query, await read(receive))).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
