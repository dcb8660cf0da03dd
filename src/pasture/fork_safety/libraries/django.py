"""Django: connections to databases and caches."""

from __future__ import annotations

import sys
from typing import Any

from pasture.fork_safety import kept
from pasture.fork_safety.library import Closing, Library


def _close_connections(problems: list[str]) -> int:
    """A connection in a transaction stays open, and children forget it."""
    database = _configured("django.db")
    if database is None:
        return 0
    connections = kept.made_by(database.connections)
    opened = [connection for connection in connections if connection.connection is not None]
    if any(map(kept.is_in_transaction, connections)):
        kept.keep([])
        for connection in connections:
            if not kept.is_in_transaction(connection):
                connection.close()
    else:
        database.connections.close_all()
    for connection in connections:
        # A pool (PostgreSQL, Django 5.1 and later) has connections and threads of its own.
        # Asking for `connection.pool` would make one.
        if connection.alias in getattr(connection, "_connection_pools", ()):
            connection.close_pool()
    # Django keeps the connection of an in-memory database.
    return sum(1 for connection in opened if connection.connection is None)


def _close_caches(problems: list[str]) -> int:
    cache = _configured("django.core.cache")
    if cache is None:
        return 0
    cache.close_caches()
    return len(kept.made_by(cache.caches))


def _configured(module: str) -> Any:
    conf = sys.modules.get("django.conf")
    if conf is None or not conf.settings.configured:
        return None
    return sys.modules.get(module)


CARD = Library(
    package="django",
    closings=(
        Closing("django_connections", _close_connections, to_database=True),
        Closing("django_caches", _close_caches),
    ),
)
