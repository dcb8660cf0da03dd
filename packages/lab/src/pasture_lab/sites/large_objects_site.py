"""The test application of the PyPy study of 2018, as a Django site.

At start-up it allocates five large objects; each request allocates one more and drops the
third-last. A large object holds, for i from 0 to 1599, a list of i references to one string,
and 40 strings each. Under an interpreter without Django it is the same as plain WSGI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

AT_START = 5
LISTS = 1600
STRINGS_EACH = 40


class LargeObject:
    """About 14 MB on CPython: 10 MB of references, 64,000 strings, 1,600 lists."""

    def __init__(self, text: str) -> None:
        blank = " "  # from a variable: a constant would be one string
        self.lists: list[list[str]] = []
        self.strings: list[str] = []
        for i in range(LISTS):
            self.lists.append([text] * i)
            for _ in range(STRINGS_EACH):
                self.strings.append(blank * 8)


def allocate(number: int) -> LargeObject:
    return LargeObject(f"text {number}")


objects = [allocate(number) for number in range(AT_START)]
requests = 0


def serve() -> bytes:
    """The work of a request."""
    global requests
    requests += 1
    objects.append(allocate(AT_START + requests))
    del objects[-3]
    return b"served\n"


def plain(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = serve()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


application: Any
try:
    import django
except ImportError:
    application = plain
else:
    from django.conf import settings

    settings.configure(
        SECRET_KEY="published-with-pasture-never-use-this-key-for-a-site-of-your-own",
        ALLOWED_HOSTS=["127.0.0.1", "localhost"],
        ROOT_URLCONF=__name__,
    )
    django.setup()

    from django.core.wsgi import get_wsgi_application
    from django.http import HttpRequest, HttpResponse
    from django.urls import path

    def front(request: HttpRequest) -> HttpResponse:
        return HttpResponse(serve(), content_type="text/plain")

    urlpatterns = [path("", front)]
    application = get_wsgi_application()
