"""What `holding_app` holds, in tasks of Celery; as a program it asks for 40 answers, a line each."""

import json
import os

import celery
import holding_app

broker = os.environ["HELD_BROKER"]
tasks = celery.Celery("holding_tasks", broker=broker, backend=broker)


@tasks.task(name="ask")
def ask(host):
    return holding_app.answer(host)
