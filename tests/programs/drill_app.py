"""An application with what an operator meets: a leak, data that is written, a lock that hangs.

`app` is for WSGI, `asgi` for ASGI, `tasks` for Celery, whose broker is at DRILL_BROKER.
DRILL_THREAD starts a thread that holds the lock for most of the time.
"""

import os
import threading
import time

DATA = [bytearray(2048) for _ in range(25_000)]
LEAK = []
LOCK = threading.Lock()


def refresh():
    while True:
        with LOCK:
            time.sleep(60)


if os.environ.get("DRILL_THREAD"):
    threading.Thread(target=refresh, name="refresher", daemon=True).start()
    time.sleep(0.1)


def leak():
    LEAK.append([f"{len(LEAK)}-{i}" for i in range(400)])


def write():
    for row in DATA:
        row[0] ^= 1


def price():
    with LOCK:
        return len(DATA)


PAGES = {"/leak": leak, "/write": write, "/price": price, "/eat": lambda: bytearray(b"x") * 10**9}


def page(path):
    PAGES.get(path, time.monotonic)()
    return f"{os.getpid()} {len(LEAK)}"


def app(environ, start_response):
    answer = page(environ["PATH_INFO"]).encode()
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]


async def asgi(scope, receive, send):
    assert scope["type"] == "http"
    answer = page(scope["path"]).encode()
    headers = [(b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


if broker := os.environ.get("DRILL_BROKER"):
    import celery

    tasks = celery.Celery("drill_app", broker=broker, backend=broker)
    tasks.task(name="page")(page)
