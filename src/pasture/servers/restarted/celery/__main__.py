"""Celery starts this program when a worker of `pasture run celery` is asked to restart."""

import sys

from pasture.servers.celery import engine

if __name__ == "__main__":
    sys.exit(engine.run())
