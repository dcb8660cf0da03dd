"""`python -m pasture.servers.celery ARGS`: what `pasture run celery ARGS` becomes."""

import sys

from pasture.servers.celery import engine

if __name__ == "__main__":
    sys.exit(engine.run())
