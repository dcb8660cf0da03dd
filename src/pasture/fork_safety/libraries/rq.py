"""RQ: a worker listens for commands on a connection and in a thread of its own.

A work horse uses neither; its other connections are redis-py's.

Source: RQ 2.0 to 3.0, worker (`subscribe`, `unsubscribe`, `_pubsub_exception_handler`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pasture.fork_safety.library import ForkAware, Library


def _workers(_: object) -> Iterable[object]:
    return (getattr(sys.modules.get("rq.worker"), "BaseWorker", None),)


def _connections(workers: Sequence[Any]) -> Iterator[int]:
    for worker in workers:
        connection = getattr(worker.pubsub, "connection", None)
        socket = getattr(connection, "_sock", None)
        if socket is not None:
            yield socket.fileno()


def _threads() -> frozenset[int]:
    """Identifiers of the threads that belong to a worker."""
    [kind] = _workers(None)
    if not isinstance(kind, type):
        return frozenset()
    found = set()
    for thread in threading.enumerate():
        handler = getattr(thread, "exception_handler", None)
        if isinstance(getattr(handler, "__self__", None), kind) and thread.ident is not None:
            found.add(thread.ident)
    return frozenset(found)


CARD = Library(
    package="rq",
    fork_aware=ForkAware(
        "rq", (2, 0), (3, 0), _workers, _connections, versioned="rq.version", attribute="VERSION"
    ),
    restarted_now=_threads,
)
