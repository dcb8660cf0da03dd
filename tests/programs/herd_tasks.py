"""A Celery application that reports what its pool processes see; its heap is that of herd_app.py.

The broker and the results are at HERD_BROKER.
"""

import json
import os
import signal
import time

import celery

if os.environ.get("HERD_SWITCH"):
    import pasture.servers.celery  # noqa: F401

RECORDS = [{"id": i, "tags": [f"tag {i}"]} for i in range(int(os.environ["HERD_RECORDS"]))]
KEPT = []

app = celery.Celery(
    "herd_tasks",
    broker=os.environ["HERD_BROKER"],
    backend=os.environ["HERD_BROKER"],
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    **json.loads(os.environ.get("HERD_CONF", "{}")),
)


def own_bytes(kind):
    with open("/proc/self/smaps_rollup") as lines:
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(kind))


@app.task
def read(seconds=0.0):
    total = 0
    for record in RECORDS:
        for tag in record["tags"]:
            total += len(tag) + record["id"]
    time.sleep(seconds)
    private, pss = map(own_bytes, ("Private_Dirty", "Pss:"))
    return {"pid": os.getpid(), "private": private, "pss": pss, "total": total}


@app.task
def add(left, right, seconds=0.0):
    time.sleep(seconds)
    return left + right


@app.task(bind=True, max_retries=3)
def retry_twice(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task
def end_once(path):
    """End the process at the first try."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "ended"
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def keep(megabytes):
    before = own_bytes("Private_Dirty")
    KEPT.append(b"x" * (megabytes << 20))
    return {"pid": os.getpid(), "before": before, "private": own_bytes("Private_Dirty")}
