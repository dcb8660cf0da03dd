"""Actors of dramatiq, and a client: `python dramatiq_jobs.py URL JOBS [ACTOR]`.

The client prints a line of JSON for each result. The address of Redis is in QUEUE_URL for workers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

if __name__ == "__main__":
    os.environ["QUEUE_URL"] = sys.argv[1]

import dramatiq
import queue_stock
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import ResultMissing, Results
from dramatiq.results.backends import RedisBackend

TIMEOUT_S = 120
URL = os.environ["QUEUE_URL"]
broker = RedisBroker(url=URL)
broker.add_middleware(Results(backend=RedisBackend(url=URL), result_ttl=3_600_000))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True, actor_name="read_all", max_retries=0)  # type: ignore[untyped-decorator]
def read_all() -> dict[str, int]:
    found: dict[str, int] = queue_stock.read_all()
    time.sleep(0.05)  # so that all workers get their share
    return found


@dramatiq.actor(actor_name="kill_itself", max_retries=0)  # type: ignore[untyped-decorator]
def kill_itself() -> None:
    """A worker process that the kernel ends."""
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    count, *names = sys.argv[2:]
    if names == ["kill_itself"]:
        kill_itself.send()
        return
    messages = [read_all.send() for _ in range(int(count))]
    deadline = time.monotonic() + TIMEOUT_S
    for message in messages:
        print(json.dumps(result_of(message, deadline)), flush=True)


def result_of(message: Any, deadline: float) -> Any:
    """Looks again and again: a wait of Redis's own would end at the client's time limit."""
    while True:
        try:
            return message.get_result(block=False)
        except ResultMissing:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


if __name__ == "__main__":
    main()
