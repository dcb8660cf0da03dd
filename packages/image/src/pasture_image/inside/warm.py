"""Requests that an application serves before an image is taken: programs have what they load.

In the builder, while it is observed what modules read: code that runs for the first time in a
request reads variables and files, too.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

from pasture.errors import ImageFailed, UsageError

_NAMES = ("application", "app")


def warm(preload: Iterable[str], application: str, lines: Iterable[str]) -> None:
    """Serve requests; what went wrong with them goes to standard error.

    Args:
        preload: modules that are loaded; the last that has an application is warmed.
        application: `MODULE:NAME`; "" looks for one.
        lines: requests, as `PATH` or `METHOD PATH`, and headers, as `Name: value`.

    Raises:
        ImageFailed: there is no application, or all requests failed.
    """
    from pasture.warmup.requests import parse_lines
    from pasture.warmup.warmup import warm_up

    found = _find(preload, application)
    try:
        requests = parse_lines(lines)
    except UsageError as error:
        raise ImageFailed(error.message, hint=error.hint) from None
    report = warm_up(found, requests.requests, headers=requests.headers)
    for problem in report.problems:
        print(f"warm-up: {problem}", file=sys.stderr, flush=True)
    counts = report.counts
    if not counts["requests"] or counts["failed"] == counts["requests"]:
        raise ImageFailed("no request of the warm-up was answered", hint="leave --warm out")


def _find(preload: Iterable[str], application: str) -> Callable[..., Any]:
    module, _, name = application.partition(":")
    places = [(module, name or None)] if module else [(one, None) for one in reversed([*preload])]
    for place, wanted in places:
        loaded = importlib.import_module(place)
        for attribute in (wanted,) if wanted else _NAMES:
            found = getattr(loaded, attribute, None)
            if callable(found):
                return found  # type: ignore[no-any-return]
    raise ImageFailed(
        "there is no application to warm up", hint="name it: --app MODULE:NAME, as for gunicorn"
    )
