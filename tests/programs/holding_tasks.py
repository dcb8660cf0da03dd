"""What `holding_app` holds, answered by tasks of Celery."""

import os

import celery
import holding_app

broker = os.environ["HELD_BROKER"]
tasks = celery.Celery("holding_tasks", broker=broker, backend=broker)


@tasks.task(name="ask")
def ask(host):
    return holding_app.answer(host)
