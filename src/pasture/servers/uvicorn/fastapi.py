"""`python -m pasture.servers.uvicorn.fastapi ARGS`: what `pasture run fastapi ARGS` becomes."""

from __future__ import annotations

from fastapi_cli.cli import app

from pasture.servers.uvicorn.__main__ import run

if __name__ == "__main__":
    run("fastapi", lambda: app(prog_name="fastapi"))
