"""Tasks of Huey, and a client: `python huey_jobs.py URL JOBS`; a line of JSON for each result."""

from __future__ import annotations

import json
import os
import sys
import time

if __name__ == "__main__":
    os.environ["QUEUE_URL"] = sys.argv[1]

import queue_stock
from huey import RedisHuey

TIMEOUT_S = 120
huey = RedisHuey("jobs", url=os.environ["QUEUE_URL"])


@huey.task(name="read_all")  # type: ignore[untyped-decorator]
def read_all() -> dict[str, int]:
    found: dict[str, int] = queue_stock.read_all()
    time.sleep(0.05)  # so that all workers get their share
    return found


def main() -> None:
    results = [read_all() for _ in range(int(sys.argv[2]))]
    for result in results:
        print(json.dumps(result.get(blocking=True, timeout=TIMEOUT_S)), flush=True)


if __name__ == "__main__":
    import huey_jobs  # a task is known by its module's name

    huey_jobs.main()
