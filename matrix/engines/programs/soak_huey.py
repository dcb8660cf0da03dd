"""`soak_work` as a task of Huey."""

from __future__ import annotations

import os

from huey import RedisHuey
from soak_work import work

huey = RedisHuey("soak", url=os.environ["QUEUE_URL"], results=False)


@huey.task(name="job")  # type: ignore[untyped-decorator]
def job(number: int) -> None:
    work(number)


def put(number: int) -> None:
    job(number)
