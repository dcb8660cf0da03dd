"""redis-py: a pool sees in a child that the process is another one, and reconnects.

kombu and Celery keep connections to Redis in pools of redis-py; those to other brokers they do not
open again after a fork that is not multiprocessing's.

Source: redis-py 5.2 to 8.1, connection.py (`_checkpid`, `get_connection`, `release`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pasture.fork_safety.library import ForkAware, Library, LoopOwned


def _idle(pools: Sequence[Any]) -> Iterator[int]:
    for pool in pools:
        waiting = getattr(pool, "pool", None)  # a BlockingConnectionPool's queue, of None, too
        held = getattr(pool, "_available_connections", ()) if waiting is None else waiting.queue
        for connection in list(held):
            # A client with a cache wraps its connection.
            socket = getattr(getattr(connection, "_conn", connection), "_sock", None)
            if socket is not None:
                yield socket.fileno()


CARD = Library(
    package="redis",
    fork_aware=ForkAware(
        "redis", (5, 2), (8, 1), lambda module: (getattr(module, "ConnectionPool", None),), _idle
    ),
    on_loop=(
        LoopOwned(
            "redis.asyncio.connection",
            "AbstractConnection",
            lambda one: one.disconnect(),
            lambda one: bool(one.is_connected),
            is_for_good=False,
        ),
    ),
)
