"""`soak_work` as a job of RQ."""

from __future__ import annotations

import os

from redis import Redis
from rq import Queue

_QUEUE: list[Queue] = []


def job(number: int) -> None:
    from soak_work import work

    work(number)


def put(number: int) -> None:
    if not _QUEUE:
        _QUEUE.append(Queue(connection=Redis.from_url(os.environ["QUEUE_URL"])))
    _QUEUE[0].enqueue("soak_rq.job", number, result_ttl=1)
