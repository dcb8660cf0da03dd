"""A WSGI application that works only where gevent had patched before it was imported."""

import json
import os
import threading
import time
from socket import socket
from time import sleep

import gevent
from gevent import monkey

MODULES = ("os", "queue", "select", "signal", "socket", "ssl", "subprocess", "threading", "time")
AT_IMPORT = {name: monkey.is_module_patched(name) for name in MODULES}
LOCAL = threading.local()
INSIDE = []
TICKS = []


def tick():
    while True:
        TICKS.append(os.getpid())
        time.sleep(0.01)


gevent.spawn(tick)


def app(environ, start_response):
    INSIDE.append(None)
    LOCAL.requests = getattr(LOCAL, "requests", 0) + 1
    together = 1
    for _ in range(200 if environ["PATH_INFO"] == "/meet" else 0):
        together = max(together, len(INSIDE))
        if together > 1:
            break
        sleep(0.01)  # another request begins, if this is gevent's
    before = len(TICKS)
    sleep(0.05)
    INSIDE.pop()
    found = {
        "pid": os.getpid(),
        "together": together,
        "ticks": len(TICKS) - before,
        "requests": LOCAL.requests,
        "patched": all(AT_IMPORT.values()) and socket.__module__.startswith("gevent"),
    }
    body = json.dumps(found).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
