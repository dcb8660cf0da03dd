"""A WSGI application of which each request keeps LEAK_BYTES and reports its worker's memory.

/idle keeps nothing.
"""

import json
import os

LEAK_BYTES = 4 << 20
HERD = [{"id": i, "tags": [f"tag {i}"]} for i in range(60_000)]
KEPT = []


def private_bytes():
    with open("/proc/self/smaps_rollup") as lines:
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private"))


def app(environ, start_response):
    if environ["PATH_INFO"] != "/idle":
        KEPT.append(bytearray(os.urandom(1)) * LEAK_BYTES)
    body = json.dumps({"pid": os.getpid(), "private": private_bytes()}).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
