"""`soak_work` for a WSGI server: the path is the number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from soak_work import work


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    body = json.dumps(work(int(environ["PATH_INFO"][1:]))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
