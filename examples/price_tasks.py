"""Celery tasks around the price list of examples/price_list.py."""

import os
import time

import celery
import price_list

BROKER = os.environ["PRICE_BROKER"]

app = celery.Celery(
    "price_tasks", broker=BROKER, backend=BROKER, broker_connection_retry_on_startup=True
)


@app.task
def value_of_stock(seconds):
    """Read every article, then hold the pool process, so that each gets its share of tasks."""
    total = price_list.value_of_stock()
    time.sleep(seconds)
    return str(total)
