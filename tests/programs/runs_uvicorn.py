"""A program that calls `uvicorn.run` itself, on the port and with the workers of its arguments."""

import sys

import uvicorn

import pasture.servers.uvicorn  # noqa: F401

if __name__ == "__main__":
    uvicorn.run("uvicorn_app:app", port=int(sys.argv[1]), workers=int(sys.argv[2]))
