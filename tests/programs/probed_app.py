"""A WSGI application whose pages work in the process that loads it, and not in its children."""

import collections
import ctypes
import os
import queue
import threading
import time

import pasture

LOADED_BY = os.getpid()
served = collections.Counter()
ONCE = {"/link": ("200 OK", "410 Gone"), "/token": ("302 Found", "400 Bad Request")}
jobs, done = queue.Queue(), queue.Queue()


def work():
    while True:
        done.put(jobs.get())


def start_worker(threads=[]):  # noqa: B006  once for all
    if not threads:
        threads.append(threading.Thread(target=work, daemon=True))
        threads[0].start()


@pasture.before_fork
def close_slowly():
    if os.environ.get("PROBED_CLOSES_SLOWLY"):
        print("closing", flush=True)
        time.sleep(2)


def in_child():
    return os.getpid() != LOADED_BY


def page(path, method):
    if path == "/pool":  # its thread was started by the warm-up
        start_worker()
        jobs.put(path)
        done.get(timeout=3600)
    elif path == "/lost" and in_child():
        raise ConnectionResetError("the connection is the parent's")
    elif path == "/native" and in_child():  # C code that keeps the interpreter's lock
        mutex = ctypes.create_string_buffer(64)
        for _ in range(2):
            ctypes.PyDLL(None).pthread_mutex_lock(mutex)
    elif path == "/crash" and in_child():
        os.abort()
    elif path == "/slow":
        time.sleep(0 if in_child() else 3)
    elif path == "/tardy":
        time.sleep(3 if in_child() else 0)
    elif method == "POST":
        print("posted by", os.getpid(), flush=True)
    return b"<p><b>%d</b>" % os.getpid()


def app(environ, start_response):
    path = environ["PATH_INFO"]
    print("served", path, "in", os.getpid(), flush=True)
    served[path] += 1
    if path in ONCE or (path == "/error" and in_child()):
        first, later = ONCE.get(path, ("", "500 Internal Server Error"))
        start_response(first if first and served[path] == 1 else later, [])
        return [b"<h1>sorry"]
    body = page(path, environ["REQUEST_METHOD"])
    start_response("200 OK", [("Content-Type", "text/html")])
    return [body]
