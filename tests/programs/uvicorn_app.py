"""An ASGI application that holds much, and reports the process that serves it."""

import asyncio
import atexit
import json
import logging.config
import os
import signal
import sys
import threading
import time

import uvicorn

from pasture.proc.smaps import own_private_bytes

ROWS = [{"number": str(number), "name": f"article {number}"} for number in range(60_000)]
LOADED_BY = os.getpid()


def made_slowly(self, config, init=uvicorn.Server.__init__):
    """So that of two threads which make one at once the second has the last word."""
    init(self, config)
    time.sleep(0.2 if threading.current_thread() is threading.main_thread() else 0.5)


logging.getLogger("herd").addHandler(logging.StreamHandler(sys.stderr))
logging.getLogger("herd").setLevel("INFO")
logging.getLogger("uvicorn.access").disabled = True  # what the application says counts
if os.environ.get("HERD_LOGGING"):
    logging.config.dictConfig({"version": 1})  # which disables all loggers that there are
if os.environ.get("HERD_LOAD_S"):
    print("loading", flush=True)
    time.sleep(float(os.environ["HERD_LOAD_S"]))
if os.environ.get("HERD_THREAD"):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
atexit.register(lambda: print(f"atexit in {os.getpid()}", flush=True))
if os.environ.get("HERD_SLOW_SERVER"):
    uvicorn.Server.__init__ = made_slowly
signal.signal(signal.SIGUSR1, lambda *_: print(f"usr1 in {os.getpid()}", flush=True))

started = []
served = []
kept = []


def facts(scope):
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "loaded_by": LOADED_BY,
        "rows": sum(len(row["name"]) for row in ROWS),
        "model": sum(len(row["number"]) for row in scope["state"].get("model", ())),
        "private": own_private_bytes(),
        "started": started,
        "warm": any(path.endswith("/warm") for path in served),
        "state": scope["state"].get("opened_by"),
        "path": scope["path"],
        "root_path": scope["root_path"],
        "loop": type(asyncio.get_running_loop()).__module__,
        "stdin": os.fstat(sys.stdin.fileno()).st_ino,
        "pipes": sum(_is_pipe(fd) for fd in os.listdir("/proc/self/fd")),
    }


def _is_pipe(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith(("pipe", "socket"))
    except OSError:
        return False


def hang_at_end(send):
    async def sending(message):
        if message["type"] == "lifespan.shutdown.complete":
            await asyncio.sleep(3600)
        await send(message)

    return sending


async def lifespan(scope, receive, send):
    await receive()
    if os.environ.get("HERD_FAILS"):
        await send({"type": "lifespan.startup.failed", "message": "no database"})
        return
    started.append(os.getpid())
    scope["state"]["opened_by"] = os.getpid()
    if os.environ.get("HERD_LOADS_IN_LIFESPAN"):
        scope["state"]["model"] = [{"number": str(number)} for number in range(60_000)]
    if os.environ.get("HERD_TASK"):
        kept.append(asyncio.ensure_future(asyncio.sleep(3600)))
    if os.environ.get("HERD_HANGS_AT_END"):
        send = hang_at_end(send)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    print(f"lifespan ended in {os.getpid()}", flush=True)
    await send({"type": "lifespan.shutdown.complete"})


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(scope, receive, send)
        return
    if scope["type"] == "websocket":
        return
    served.append(scope["path"])
    if scope["path"] == "/slow":
        print("slow begins", flush=True)
        await asyncio.sleep(1)
    if scope["path"] == "/grow":
        kept.append(b"x" * (16 << 20))
    logging.getLogger("herd").info("herd serves %s", scope["path"])
    body = json.dumps(facts(scope)).encode()
    head = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})
