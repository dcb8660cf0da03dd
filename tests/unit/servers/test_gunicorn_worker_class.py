"""What a class of gunicorn's workers says: the protocol, and where its own loop is."""

import asyncio
import functools
import subprocess
from typing import Any

import pytest
from gunicorn.workers.base import Worker
from gunicorn.workers.gthread import ThreadWorker
from gunicorn.workers.sync import SyncWorker

from pasture.servers.gunicorn.rehearsal import loops_of
from pasture.servers.gunicorn.worker_class import protocol_of
from pasture.warmup.protocol import Protocol

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of uvicorn.workers
]


def classes_of_uvicorn(**options: Any) -> type:
    from uvicorn.workers import UvicornWorker

    return type("Of", (UvicornWorker,), {"CONFIG_KWARGS": options})


def wsgi(environ: Any, start_response: Any) -> None:
    pass


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    pass


class Going(SyncWorker):  # type: ignore[misc]
    def run(self) -> None:
        try:
            super().run()
        finally:
            self.alive = False


class GoingByTwoArguments(SyncWorker):  # type: ignore[misc]
    def run(self) -> None:
        super(GoingByTwoArguments, self).run()  # noqa: UP008


class GoingByName(Going, ThreadWorker):  # type: ignore[misc]
    def run(self) -> None:
        ThreadWorker.run(self)


def noted(function: Any) -> Any:
    @functools.wraps(function)
    def note(*arguments: Any) -> Any:
        return function(*arguments)

    return note


class Decorated(SyncWorker):  # type: ignore[misc]
    @noted
    def run(self) -> None:
        super().run()


class Own(SyncWorker):  # type: ignore[misc]
    def run(self) -> None:
        super().handle_winch(0, "")
        subprocess.run(["true"])
        asyncio.run(self.serve())

    async def serve(self) -> None:
        pass


class OverOwn(Own):
    def run(self) -> None:
        super().run()


class FromBase(Worker):  # type: ignore[misc]
    def run(self) -> None:
        super().run()


class Hidden(SyncWorker):  # type: ignore[misc]
    run = functools.partialmethod(SyncWorker.run)


@pytest.mark.parametrize("kind", [Going, GoingByTwoArguments, Decorated, SyncWorker])
def test_the_loop_of_a_class_that_goes_on_in_it_is_gunicorns(kind: type) -> None:
    assert loops_of(kind) == (SyncWorker,)


def test_the_loop_may_be_called_by_the_name_of_its_class() -> None:
    assert loops_of(GoingByName) == (SyncWorker, ThreadWorker)


@pytest.mark.parametrize("kind", [Own, OverOwn, FromBase, Worker, Hidden])
def test_a_class_that_may_not_come_to_gunicorns_loop_has_none(kind: type) -> None:
    assert loops_of(kind) == ()


def test_gunicorns_own_classes_say_their_protocol() -> None:
    assert protocol_of(Going, asgi) is Protocol.WSGI
    assert protocol_of(ThreadWorker, wsgi) is Protocol.WSGI
    assert "FromBase" in protocol_of(FromBase, wsgi)


@pytest.mark.parametrize(
    ("options", "application", "spoken"),
    [
        ({}, asgi, Protocol.ASGI),
        ({"interface": "asgi3"}, wsgi, Protocol.ASGI),  # uvicorn calls it so, whatever it is
        ({"interface": "wsgi"}, wsgi, Protocol.WSGI),
    ],
)
def test_uvicorns_classes_say_it_by_their_options(
    options: dict[str, Any], application: Any, spoken: Protocol
) -> None:
    assert protocol_of(classes_of_uvicorn(**options), application) is spoken


@pytest.mark.parametrize("options", [{}, {"factory": True}, {"interface": "asgi2"}])
def test_what_uvicorn_would_make_an_application_of_is_left_to_it(options: dict[str, Any]) -> None:
    assert protocol_of(classes_of_uvicorn(**options), wsgi).startswith("left out: ")
