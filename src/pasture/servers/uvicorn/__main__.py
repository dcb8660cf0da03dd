"""`python -m pasture.servers.uvicorn ARGS`: what `pasture run uvicorn ARGS` becomes."""

import sys

from pasture.servers.uvicorn import engine

if __name__ == "__main__":
    sys.exit(engine.run())
