"""A Celery application with the one task of `fault_app`; broker and results at FAULT_BROKER."""

import os

import celery
from fault_app import serve

app = celery.Celery(
    "fault_tasks",
    broker=os.environ["FAULT_BROKER"],
    backend=os.environ["FAULT_BROKER"],
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 20},
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
)


@app.task
def answer(number):
    return serve(number)
