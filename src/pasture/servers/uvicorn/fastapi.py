"""`python -m pasture.servers.uvicorn.fastapi ARGS`: what `pasture run fastapi ARGS` becomes."""

import sys

from fastapi_cli.cli import app

from pasture.servers.uvicorn import engine

if __name__ == "__main__":
    sys.exit(engine.run("fastapi", lambda: app(prog_name="fastapi")))
