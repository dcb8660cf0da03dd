"""A WSGI application whose pages work in the process that loads it, and not in its children."""

import ctypes
import os
import queue
import threading
import time
from concurrent.futures import Future

import pasture

LOADED_BY = os.getpid()
jobs = queue.SimpleQueue()


def work():
    while job := jobs.get():
        job.set_result(0)


consumer = threading.Thread(target=work, name="consumer", daemon=True)


@pasture.before_fork
def close_slowly():
    if os.environ.get("PROBED_CLOSES_SLOWLY"):
        print("closing", flush=True)
        time.sleep(2)


def in_child():
    return os.getpid() != LOADED_BY


def page(path, method):
    if path == "/pool":  # its thread was started by the warm-up
        if consumer.ident is None:
            consumer.start()
        jobs.put(job := Future())
        job.result(timeout=3600)
    elif path == "/lost" and in_child():
        raise ConnectionResetError("the connection is the parent's")
    elif path == "/native" and in_child():  # C code that keeps the interpreter's lock
        ctypes.PyDLL(None).sleep(3600)
    elif path == "/crash" and in_child():
        os.abort()
    elif path == "/slow":
        time.sleep(0 if in_child() else 3)
    elif method == "POST":
        print("posted by", os.getpid(), flush=True)
    return b"<p>empty" if path == "/poor" and in_child() else b"<p><b>%d</b>" % os.getpid()


def app(environ, start_response):
    if environ["PATH_INFO"] == "/error" and in_child():
        start_response("500 Internal Server Error", [])
        return [b"<h1>sorry"]
    body = page(environ["PATH_INFO"], environ["REQUEST_METHOD"])
    start_response("200 OK", [("Content-Type", "text/html")])
    return [body]
