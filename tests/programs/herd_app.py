"""A WSGI application that reports what its worker sees: who serves, what is private.

Holds a heap large enough for a page to count: 60,000 dictionaries, about 20 MB, or as many as
HERD_RECORDS says.
"""

import gc
import json
import logging.config
import os
import sys
import threading
import time
from pathlib import Path

COUNT = int(os.environ.get("HERD_RECORDS", "60000"))
RECORDS = [{"id": i, "tags": [f"tag {i}"]} for i in range(COUNT)]
SERVED_BY: list[int] = []
FULL_COLLECTIONS = {"inside": 0, "between": 0}
inside = False


def _run_or_wait():
    while os.environ["HERD_THREAD"] == "runs":
        pass
    time.sleep(600)


if os.environ.get("HERD_THREAD"):
    threading.Thread(target=_run_or_wait, name="herd-thread", daemon=True).start()
if os.environ.get("HERD_LOGGING"):
    logging.config.dictConfig({"version": 1})  # which disables all loggers that there are
if os.environ.get("HERD_BROKEN"):
    raise RuntimeError("this application is broken on purpose")


def who(environ):
    return {
        "pid": os.getpid(),
        "served_by": SERVED_BY,
        "host": environ["HTTP_HOST"],
        "cookie": environ.get("HTTP_COOKIE"),
    }


def collector(environ):
    return {"enabled": gc.isenabled(), "thresholds": gc.get_threshold()}


def private_bytes(environ):
    with Path("/proc/self/smaps_rollup").open() as lines:
        sizes = [line.split()[1] for line in lines if line.startswith("Private")]
    return {"pid": os.getpid(), "private_bytes": sum(map(int, sizes)) * 1024}


def read(environ):
    total = 0
    for record in RECORDS:
        for tag in record["tags"]:
            total += len(tag) + record["id"]
    return private_bytes(environ) | {"total": total}


def collect(environ):
    gc.collect()
    return private_bytes(environ)


def watch_collections(phase, info):
    if phase == "stop" and info["generation"] == 2:
        FULL_COLLECTIONS["inside" if inside else "between"] += 1


def litter(environ):
    """Leave objects behind until a full collection is more than half way to being due."""
    if watch_collections not in gc.callbacks:
        gc.callbacks.append(watch_collections)
    RECORDS.append({"tags": [[] for _ in range(100_000)], "id": -1})
    for _ in range(gc.get_threshold()[2] // 2 + 1):
        gc.collect(1)
    return FULL_COLLECTIONS


def full_collections(environ):
    return FULL_COLLECTIONS


def sleep(environ):
    print("sleeps", file=sys.stderr, flush=True)
    time.sleep(float(environ["QUERY_STRING"]))
    return who(environ)


def fail(environ):
    raise ValueError("this page is broken on purpose")


PAGES = {
    f"/{page.__name__}": page
    for page in (who, collector, read, collect, litter, full_collections, sleep, fail)
}


def app(environ, start_response):
    global inside
    inside = True
    SERVED_BY.append(os.getpid())
    body = json.dumps(PAGES[environ["PATH_INFO"]](environ)).encode()
    inside = False
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
