"""Tasks of Celery, and a client: `python celery_jobs.py URL JOBS`; a line of JSON a result."""

from __future__ import annotations

import json
import os
import sys
import time

if __name__ == "__main__":
    os.environ["QUEUE_URL"] = sys.argv[1]

import queue_stock
from celery import Celery

TIMEOUT_S = 120
URL = os.environ["QUEUE_URL"]
app = Celery("jobs", broker=URL, backend=URL)


@app.task(name="read_all")  # type: ignore[untyped-decorator]
def read_all() -> dict[str, int]:
    found: dict[str, int] = queue_stock.read_all()
    time.sleep(0.05)  # so that all workers get their share
    return found


def main() -> None:
    results = [read_all.delay() for _ in range(int(sys.argv[2]))]
    for result in results:
        print(json.dumps(result.get(timeout=TIMEOUT_S)), flush=True)


if __name__ == "__main__":
    main()
