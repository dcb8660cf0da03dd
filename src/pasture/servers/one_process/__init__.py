"""Servers that serve in one process: they have nothing to share, which is logged once.

A module each, whose import is the switch, as for an engine.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

_GUNICORN = "`pasture run gunicorn MODULE:APP -w 4`"

INSTEAD: Mapping[str, str] = {
    "waitress": f"{_GUNICORN} does, or `pasture run gunicorn --paste FILE.ini -w 4`",
    "cheroot": f"{_GUNICORN} does",
    "daphne": "`pasture run uvicorn MODULE:APP --workers 4` does",
    "aiohttp": "`pasture run gunicorn -k aiohttp.GunicornWebWorker MODULE:APP -w 4` does",
}
"""A command that forks workers, by the server's package."""

PROGRAMS: Mapping[str, str] = {
    "waitress-serve": "waitress",
    "pserve": "waitress",
    "cheroot": "cheroot",
    "daphne": "daphne",
}
"""Programs, and the server that they start. pserve's file may name another one."""

_pid = os.getpid()
has_said = False
"""Whether this process has logged it."""


def sentence(server: str) -> str:
    return f"{server} serves in one process: it forks no workers that could share memory"


def watch(server: str, module: str, *methods: str) -> None:
    """Log it before a call of one of these functions, `NAME` or `CLASS.NAME` of a module."""
    for method in methods:
        *classes, name = method.split(".")
        owner: Any = sys.modules[module]
        for one in classes:
            owner = getattr(owner, one)
        setattr(owner, name, _saying(server, getattr(owner, name)))


def _saying(server: str, serve: Any) -> Any:
    @functools.wraps(serve)
    def say_and_serve(*arguments: Any, **named: Any) -> Any:
        _say(server)
        return serve(*arguments, **named)

    return say_and_serve


def _say(server: str) -> None:
    """Log it, except in a worker, its parent, or another thread, which may serve metrics."""
    # Imported now: `pasture run` reads the tables without them.
    from pasture.log_lines import log
    from pasture.serving import sealer

    global has_said
    is_program = threading.current_thread() is threading.main_thread() and os.getpid() == _pid
    if is_program and not has_said and not sealer.has_sealed():
        has_said = True
        log.warning("not sealed: %s; %s", sentence(server), INSTEAD[server])
