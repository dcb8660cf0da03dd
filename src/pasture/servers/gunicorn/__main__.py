"""`python -m pasture.servers.gunicorn ARGS`: what `pasture run gunicorn ARGS` becomes."""

import sys

from pasture.servers.gunicorn.application import run

if __name__ == "__main__":
    sys.exit(run())
