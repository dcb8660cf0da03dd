"""What a class of gunicorn's workers says: the protocol, and whose its loop is."""

from typing import Any

import pytest
from gunicorn.workers.base import Worker
from gunicorn.workers.gthread import ThreadWorker
from gunicorn.workers.sync import SyncWorker

from pasture.servers.gunicorn.rehearsal import has_known_loop
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


class Derived(SyncWorker):  # type: ignore[misc]
    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)


class FromBase(Worker):  # type: ignore[misc]
    def run(self) -> None:
        super().run()


@pytest.mark.parametrize(
    ("kind", "known"),
    [(SyncWorker, True), (Derived, True), (Going, False), (FromBase, False), (Worker, False)],
)
def test_a_class_with_a_run_of_its_own_has_no_known_loop(kind: type, known: bool) -> None:
    assert has_known_loop(kind) is known


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
