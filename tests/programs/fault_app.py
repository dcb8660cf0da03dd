"""A WSGI application whose every answer is accounted for, and whose clock can be stepped.

FAULT_STATE names a folder. Before a request is served its number and this process's pid go to the
file `started` there, in one write: so it is known who served what was never answered. The file
`clock` holds seconds that `time.time` is off by.
"""

import json
import os
import struct
import time
from pathlib import Path

STATE = Path(os.environ["FAULT_STATE"])
STARTED = os.open(STATE / "started", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
CLOCK = os.open(STATE / "clock", os.O_RDONLY)
RECORDS = [{"id": i, "tags": [f"tag {i}"]} for i in range(10_000)]
CACHE = {}
true_time = time.time


def stepped_time():
    return true_time() + struct.unpack("q", os.pread(CLOCK, 8, 0))[0]


time.time = stepped_time


def serve(number):
    """Read some of the heap, and build some of it lazily."""
    os.write(STARTED, f"{number} {os.getpid()}\n".encode())
    CACHE.setdefault(number % 500, [f"record {number}"] * 20)
    time.sleep(number % 5 * 0.02)  # so that a kill finds a worker at work
    total = sum(len(record["tags"]) for record in RECORDS[number % 90 * 100 :][:2_000])
    return {"pid": os.getpid(), "number": number, "total": total}


def app(environ, start_response):
    body = json.dumps(serve(int(environ["PATH_INFO"][1:]))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
