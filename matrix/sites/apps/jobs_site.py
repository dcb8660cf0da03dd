"""Jobs over a DataFrame: asked for by a page, done by Celery."""

import os
import time

import pandas
from celery import Celery, chord
from flask import Flask, jsonify, request

tasks = Celery("jobs", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
tasks.conf.update(task_acks_late=True, result_expires=600, broker_connection_retry_on_startup=True)
application = Flask(__name__)
FRAME = pandas.DataFrame({"key": [n % 97 for n in range(100_000)], "value": range(100_000)})


@tasks.task
def total(key):
    """Sum of one key's values."""
    return int(FRAME[FRAME.key == key].value.sum())


@tasks.task
def add(numbers):
    """Sum of numbers."""
    return sum(numbers)


@tasks.task(bind=True, max_retries=3)
def fails_twice(self):
    """Done at the third try."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return self.request.retries


@tasks.task
def fails():
    """Never done."""
    raise ValueError("as it should")


@tasks.task
def sleeps(seconds):
    """Done after a while."""
    time.sleep(seconds)
    return seconds


@application.get("/")
def index():
    """How many rows there are."""
    return jsonify(rows=len(FRAME))


@application.post("/jobs/<name>")
def start(name):
    """Enqueue a job."""
    if name == "chord":
        job = chord(total.s(key) for key in range(20))(add.s())
    else:
        known = {"total": total, "fails": fails, "fails_twice": fails_twice, "sleeps": sleeps}
        job = known[name].delay(*request.get_json())
    return jsonify(id=job.id), 202


@application.get("/jobs/<job>")
def look(job):
    """State and result of a job."""
    found = tasks.AsyncResult(job)
    return jsonify(state=found.state, result=repr(found.result))
