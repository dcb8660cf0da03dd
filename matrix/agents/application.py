"""What `make agents` serves, as WSGI and as ASGI: a heap of about 50 MB, and an agent.

AGENT_RECIPE names the module of `matrix.agents.recipes`; "" is the application without any.
AGENT_PLACE says where it is started: at the import, or in each worker at its first request.
`/mark` reports one thing to the agent and answers what that was; `/threads` names the threads.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import os
import threading
from pathlib import Path
from typing import Any

RECORDS: list[dict[str, Any]] = [
    {"number": n, "tags": [f"tag {n}", f"of {n}"]} for n in range(110_000)
]
"""About 50 MB, which each request reads."""

_RECIPE = os.environ.get("AGENT_RECIPE", "")
_NOTES = Path(os.environ["AGENT_NOTES"])
_LOADED_BY = os.getpid()

recipe: Any = importlib.import_module(f"matrix.agents.recipes.{_RECIPE}") if _RECIPE else None
is_started_here = os.environ.get("AGENT_PLACE", "import") == "import"
numbers = itertools.count()
_started_by = 0

if recipe is not None and is_started_here:
    recipe.start()


def note_threads() -> None:
    """Write down, once, what runs besides the one that forks."""
    path = _NOTES / f"{os.getpid()}.json"
    if os.getpid() == _LOADED_BY and not path.exists():
        path.write_text(json.dumps(threads()))


def threads() -> dict[str, Any]:
    """Pid, names of the Python threads besides this one, and how many the kernel counts."""
    own = threading.current_thread()
    names = sorted(thread.name for thread in threading.enumerate() if thread is not own)
    tasks = len(list(Path("/proc/self/task").iterdir()))
    return {"pid": os.getpid(), "threads": names, "tasks": tasks}


def mark() -> dict[str, Any]:
    """One thing reported to the agent: the process and the number that its marks hold."""
    global _started_by
    own, number = os.getpid(), next(numbers)
    assert sum(len(record["tags"]) for record in RECORDS) > 0
    gc.collect()
    if recipe is None or (not is_started_here and own == _LOADED_BY):
        return {"pid": own, "number": number}
    if not is_started_here and _started_by != own:
        _started_by = own
        recipe.start()
    recipe.report(lambda kind: f"mark-{kind}-{own}-{number}-")
    return {"pid": own, "number": number}


def answer(path: str) -> bytes:
    return json.dumps(mark() if path == "/mark" else threads()).encode()


def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    body = answer(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "application/json")])
    return [body]


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "http":
        body = answer(scope["path"])
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


os.register_at_fork(before=note_threads)
