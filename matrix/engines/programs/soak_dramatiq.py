"""`soak_work` as an actor of dramatiq."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from soak_work import work

broker = RedisBroker(url=os.environ["QUEUE_URL"], heartbeat_timeout=10_000)
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="job")  # type: ignore[untyped-decorator]
def job(number: int) -> None:
    work(number)


def put(number: int) -> None:
    job.send(number)
