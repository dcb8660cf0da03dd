"""Jobs of RQ, and a client: `python -m rq_jobs URL JOBS` puts JOBS of them into the queue.

The client prints a line of JSON for each result, in the order of the jobs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import queue_stock
from redis import Redis
from rq import Queue

TIMEOUT_S = 300


def read_all() -> dict[str, int]:
    found: dict[str, int] = queue_stock.read_all()
    return found


def kill_itself() -> None:
    """A work horse that the kernel ends."""
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    url, count, *names = sys.argv[1:]
    queue = Queue(connection=Redis.from_url(url))
    name = names[0] if names else "read_all"
    jobs = [queue.enqueue(f"rq_jobs.{name}", result_ttl=3600) for _ in range(int(count))]
    deadline = time.monotonic() + TIMEOUT_S
    for job in jobs:
        while job.get_status() not in ("finished", "failed"):
            if time.monotonic() > deadline:
                sys.exit(f"no result of {job.id}: {job.get_status()}")
            time.sleep(0.01)
        print(json.dumps(job.return_value() or {"status": str(job.get_status().value)}), flush=True)


if __name__ == "__main__":
    main()
