"""`soak_work` as a task of Celery, acknowledged when it is done."""

from __future__ import annotations

import os

import celery
from soak_work import work

app = celery.Celery(
    "soak_celery",
    broker=os.environ["QUEUE_URL"],
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 15},
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
)


@app.task  # type: ignore[untyped-decorator]
def job(number: int) -> None:
    work(number)


def put(number: int) -> None:
    job.delay(number)
