"""uvicorn: spawns workers that load the application each; under pasture they are forked."""

from __future__ import annotations

import re

from pasture.trial.servers.facts import (
    NO_REFORK,
    Phrases,
    ServerFacts,
    Start,
    called_without,
)

_BINDS = dict.fromkeys(("uds", "fd"), "a trial listens on an address of its own")
_RELOADS = dict.fromkeys(
    ("reload", "reload-dir", "reload-include", "reload-exclude", "reload-delay"),
    "with it uvicorn has one process, and nothing to share",
)


def _command(start: Start) -> list[str]:
    return [
        *start.plain_or_by_pasture("uvicorn", "-m", "uvicorn"), *start.arguments,
        "--workers", str(start.workers), "--host", start.host, "--port", str(start.port), start.app,
    ]  # fmt: skip


SERVER = ServerFacts(
    name="uvicorn",
    install="pasture[uvicorn]",
    command=_command,
    stock="stock is plain uvicorn, whose workers are spawned and load the application each; under "
    "the other policies pasture has the parent load it and fork them",
    stock_spawns=True,
    cannot=NO_REFORK,
    least_workers=2,
    refused={**_BINDS, **_RELOADS},
    variables="UVICORN_",
    phrases=Phrases(
        started="Started server process",
        worker_died=re.compile(r"Child process \[\d+\] died"),
        not_found=re.compile(r"(?:Error loading ASGI app\. )(.*)$", re.MULTILINE),
        start_failed="Application startup failed",
        called_wrongly=called_without(r"start\w*"),
        wrong_kind="the application is a WSGI one and uvicorn calls ASGI ones",
        wrong_kind_hint="pasture try APP --server gunicorn; or pasture try APP --server uvicorn "
        "-- --interface wsgi",
    ),
)
