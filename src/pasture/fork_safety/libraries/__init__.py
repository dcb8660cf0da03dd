"""The libraries of which something is known, a card each. To add one: a module here, and its row.

The order matters where two cards speak of the same: names of threads are looked for from the top,
and of asynchronous clients those that use others come first.
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
    """Enter what the cards have for a time, `while_sealing` or `while_warming`."""
    with ExitStack() as stack:
        for library in LIBRARIES:
            stack.enter_context(entered(library))
        yield
