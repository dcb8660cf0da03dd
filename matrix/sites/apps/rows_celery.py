"""Rows behind Flask, whose jobs are Celery's."""

import os

import rows
from celery import Celery
from rows_flask import application

__all__ = ["application", "tasks"]

tasks = Celery("rows", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])


@tasks.task
def write(text):
    """A new row, written by a worker of Celery's."""
    rows.write(text)
    return text


rows.start = lambda job, text: write.delay(text)
