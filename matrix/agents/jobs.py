"""What `matrix.agents.recycled` runs: a Celery application whose task reports to an agent."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

from matrix.agents import application

app = Celery("jobs", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_prefetch_multiplier = 1
app.conf.worker_proc_alive_timeout = 120.0  # a process that is spawned on a busy machine is slow
app.conf.worker_pool_start_method = os.environ.get("AGENT_METHOD", "fork")


PAUSE_S = 2.0
"""Before each task: an agent that reports every second has reported the one before it by then."""


@app.task  # type: ignore[untyped-decorator, unused-ignore]
def mark() -> dict[str, Any]:
    time.sleep(PAUSE_S)
    return application.mark()
