"""A WSGI application whose process misbehaves at a refork, as the file `mood` says.

Each request with a body `id` is written to the file `served`, one line each.
"""

import functools
import json
import os
import socket
import sys
import threading
import time

import pasture

SERVER = os.getpid()
CACHE = {}
molds = 0  # between the server and this process
KEPT = []


def mood():
    try:
        with open("mood") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


@pasture.before_fork
def in_the_mold():
    global molds
    if os.getpid() == SERVER:
        return
    molds += 1
    if mood() == "dies":
        os._exit(9)
    if mood() == "hangs":
        time.sleep(600)
    if mood() == "raises":
        raise OSError("the queue does not answer")
    if mood() == "kills its forks":
        os.register_at_fork(after_in_child=lambda: os._exit(1))


@functools.cache
def peer():
    return socket.create_server(("127.0.0.1", 0))


def who(environ):
    return {"pid": os.getpid(), "parent": os.getppid(), "cache": len(CACHE)}


def grow(environ):
    """Build what is built lazily: 20,000 records, once."""
    if not CACHE:
        CACHE.update({i: [f"record {i}"] for i in range(20_000)})
    return who(environ)


def serve(environ):
    length = int(environ.get("CONTENT_LENGTH") or 0)
    name = environ["wsgi.input"].read(length).decode()
    with open("served", "a") as file:
        file.write(f"{name} {os.getpid()}\n")
    return {"id": name}


def unsafe(environ):
    pasture.fork_unsafe("the test says so")
    return who(environ)


def thread(environ):
    threading.Thread(target=time.sleep, args=(600,), name="exporter", daemon=True).start()
    return who(environ)


def greenlet(environ):
    import gevent

    KEPT.append(gevent.spawn(gevent.sleep, 600))
    return who(environ)


def connect(environ):
    """Open a connection that stays."""
    KEPT.append(socket.create_connection(peer().getsockname()))
    return who(environ)


def sleep(environ):
    print("sleeps", file=sys.stderr, flush=True)
    time.sleep(float(environ["QUERY_STRING"]))
    return who(environ)


PAGES = {
    f"/{page.__name__}": page
    for page in (who, grow, serve, unsafe, thread, greenlet, connect, sleep)
}


def app(environ, start_response):
    body = json.dumps(PAGES[environ["PATH_INFO"]](environ)).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
