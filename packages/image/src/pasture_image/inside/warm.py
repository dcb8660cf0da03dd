"""Requests that an application serves before an image is taken: programs have what they load.

In the builder, while it is observed what modules read: code that runs for the first time in a
request reads variables and files, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from pasture.errors import ImageFailed, UsageError
from pasture_image.inside import observing

_NAMES = ("application", "app")


def warm(application: Callable[..., Any], lines: Iterable[str]) -> None:
    """Serve requests; what went wrong with them goes to standard error.

    Args:
        application: of WSGI or ASGI.
        lines: requests, as `PATH` or `METHOD PATH`, and headers, as `Name: value`.

    Raises:
        ImageFailed: all requests failed.
    """
    from pasture.warmup.requests import parse_lines
    from pasture.warmup.warmup import warm_up

    def started(request: str) -> None:
        observing.occasion = f"in the request {request}"

    try:
        requests = parse_lines(lines)
    except UsageError as error:
        raise ImageFailed(error.message, hint=error.hint) from None
    report = warm_up(application, requests.requests, headers=requests.headers, on_start=started)
    for problem in report.problems:
        print(f"warm-up: {problem}", file=sys.stderr, flush=True)
    counts = report.counts
    if not counts["requests"] or counts["failed"] == counts["requests"]:
        raise ImageFailed("no request of the warm-up was answered", hint="leave --warm out")


def find(
    preload: Iterable[str], application: str, load: Callable[[str], ModuleType]
) -> Callable[..., Any]:
    """The application that is warmed.

    Args:
        preload: modules that are loaded; the last that has an application is taken.
        application: `MODULE:NAME`; "" looks for one.
        load: imports a module that may not be loaded yet.

    Raises:
        ImageFailed: there is none.
    """
    module, _, name = application.partition(":")
    places = [(module, name or None)] if module else [(one, None) for one in reversed([*preload])]
    for place, wanted in places:
        loaded = load(place)
        for attribute in (wanted,) if wanted else _NAMES:
            found = getattr(loaded, attribute, None)
            if callable(found):
                return found  # type: ignore[no-any-return]
    raise ImageFailed(
        "there is no application to warm up", hint="name it: --app MODULE:NAME, as for gunicorn"
    )
