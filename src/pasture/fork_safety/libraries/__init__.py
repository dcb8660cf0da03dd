"""The known libraries, a card each. A new one is a module here and a row.

The order matters where two cards match: names of threads are looked up from the top, and
asynchronous clients that use other ones come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from pasture.fork_safety.libraries import (
    asgiref,
    ddtrace,
    django,
    gevent,
    grpc,
    newrelic,
    opentelemetry,
    plain,
    redis,
    rq,
    sqlalchemy,
    urllib3,
)
from pasture.fork_safety.library import Library

LIBRARIES: tuple[Library, ...] = (
    ddtrace.CARD,
    opentelemetry.CARD,
    newrelic.CARD,
    gevent.CARD,
    asgiref.CARD,
    django.CARD,
    sqlalchemy.CARD,
    redis.CARD,
    rq.CARD,
    plain.CLIENTS,
    grpc.CARD,
    *plain.CARDS,
    urllib3.CARD,
)


@contextmanager
def all_of(entered: Callable[[Library], AbstractContextManager[None]]) -> Iterator[None]:
    """Enter the cards' contexts of one kind: `while_sealing` or `while_warming`."""
    with ExitStack() as stack:
        for library in LIBRARIES:
            stack.enter_context(entered(library))
        yield
