"""Huey starts this program when a consumer of `pasture run huey_consumer` is asked to restart."""

import sys

from pasture.servers.huey import engine

if __name__ == "__main__":
    sys.exit(engine.run())
