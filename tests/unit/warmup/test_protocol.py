"""What is no application of a protocol is not called; what may be one is."""

import functools
import itertools
from typing import Any

import pytest

from pasture.warmup import protocol
from pasture.warmup.protocol import Protocol
from pasture.warmup.warmup import warm_up


def wsgi(environ: Any, start_response: Any) -> Any:
    start_response("200 OK", [])
    return []


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body"})


class Wsgi:
    def __call__(self, environ: Any, start_response: Any) -> Any:
        return wsgi(environ, start_response)


class ClassAsWsgi:
    def __init__(self, environ: Any, start_response: Any) -> None:
        wsgi(environ, start_response)

    def __iter__(self) -> Any:
        return iter(())


class Asgi:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await asgi(scope, receive, send)


def view(request: Any) -> None:
    """A view, of which `responding` makes an application that says its parameters are these."""


@functools.wraps(view)
def responding(*arguments: Any) -> Any:
    return wsgi(*arguments)


def decorated(*arguments: Any, **named: Any) -> Any:
    return asgi(*arguments, **named)


class Aiohttp:
    """As aiohttp's `Application`, which says that gunicorn may have it."""

    def __call__(self) -> Any:
        raise AssertionError("called")


async def make() -> Any:
    raise AssertionError("called")


def make_in_two_ways(config: Any = None) -> Any:
    raise AssertionError("called")


APPLICATIONS = [
    (wsgi, Protocol.WSGI),
    (Wsgi(), Protocol.WSGI),
    (ClassAsWsgi, Protocol.WSGI),
    (Wsgi().__call__, Protocol.WSGI),
    (functools.partial(lambda extra, *rest: wsgi(*rest), 1), Protocol.WSGI),
    (responding, Protocol.WSGI),
    (asgi, Protocol.ASGI),
    (Asgi(), Protocol.ASGI),
    (functools.partial(asgi), Protocol.ASGI),
    (decorated, Protocol.ASGI),  # of which only a server knows it
]

NONE = [
    *itertools.product((Aiohttp(), make, make_in_two_ways, "app", None), Protocol),
    *itertools.product((asgi, Asgi()), [Protocol.WSGI]),
    (wsgi, Protocol.ASGI),
]


@pytest.mark.parametrize(("application", "spoken"), APPLICATIONS)
def test_an_application_is_called_by_its_protocol(application: Any, spoken: Protocol) -> None:
    assert protocol.refusal(application, spoken) is None
    report = warm_up(application, ["/"], protocol=spoken)
    assert [answer.status for answer in report.answers] == [200], report.problems
    assert report.protocol is spoken


@pytest.mark.parametrize(("given", "spoken"), NONE)
def test_what_is_no_application_is_not_called_and_the_report_says_so(
    given: Any, spoken: Protocol
) -> None:
    report = warm_up(given, ["/"], protocol=spoken)
    assert report.answers == () and report.application is None
    [problem] = report.problems
    assert f"{spoken} application" in problem or "cannot be called" in problem


@pytest.mark.parametrize("application", [Aiohttp(), make])
def test_a_factory_is_called_by_no_one_where_no_server_says_what_it_is(application: Any) -> None:
    assert warm_up(application, ["/"]).refused


class Hidden(Wsgi):
    __signature__ = "hidden"  # which `inspect` refuses


def test_an_object_that_shows_no_parameters_may_be_an_application() -> None:
    [answer] = warm_up(Hidden(), ["/"]).answers
    assert answer.status == 200
