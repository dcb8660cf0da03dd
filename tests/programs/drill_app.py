"""A WSGI application with what an operator meets: a leak, data that is written, a lock that hangs.

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


PAGES = {"/leak": leak, "/write": write, "/price": price}


def app(environ, start_response):
    PAGES.get(environ["PATH_INFO"], time.monotonic)()
    answer = f"{os.getpid()} {len(LEAK)}".encode()
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]
