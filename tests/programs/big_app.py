"""A WSGI application that holds a large heap: for measuring what looking at one costs.

    /          answers at once
    /read      reads every object and collects: under stock every page becomes private

Environment:
    BIG_RECORDS: how many records the parent builds (default 1,000; 450 bytes each).
"""

import gc
import json
import os

RECORDS = [
    {"number": 10**9 + i, "name": f"object {i}", "tags": [f"tag {i}"]}
    for i in range(int(os.environ.get("BIG_RECORDS", "1000")))
]


def read():
    total = 0
    for record in RECORDS:
        total += record["number"] + len(record["name"]) + len(record["tags"][0])
    gc.collect()
    return total


def application(environ, start_response):
    total = read() if environ["PATH_INFO"] == "/read" else 0
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"pid": os.getpid(), "total": total}).encode()]
