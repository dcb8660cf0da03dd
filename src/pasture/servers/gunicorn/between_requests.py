"""Full collections between requests, for servers that are not sealed; a sealed one needs no hook.

In a gunicorn configuration file:

    from pasture.servers.gunicorn.between_requests import post_request

Then a full collection runs after a response, if one would soon run in the middle of a request.
"""

from __future__ import annotations

from typing import Any

from pasture.gc import collect_between_requests


def post_request(worker: Any, request: Any, environ: Any, response: Any) -> None:
    """gunicorn's hook of this name, called in a worker after each response."""
    collect_between_requests()
