"""Connections to databases that a parent goes on using, and that its children forget.

A program that works between its forks may be in a transaction, or have temporary tables: its
connections stay open. Each direct child forgets its copies right after the fork and opens its own
at the next use: two processes must not write into one stream.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from pasture.reasons import Hazard, Reason

_IN_CHILDREN = (
    "end it before the fork: children open connections of their own, and do not see what it has "
    "written"
)

_engines: WeakSet[Any] = WeakSet()
_owner = 0
_hooked = False
_parked: list[Any] = []
"""The parent's connections, in a child: their end would be sent through the parent's stream."""


def django_connections() -> list[Any]:
    """Connections that Django has made in this thread, if it is set up. Connects nothing."""
    conf, database = sys.modules.get("django.conf"), sys.modules.get("django.db")
    if conf is None or database is None or not conf.settings.configured:
        return []
    return made_by(database.connections)


def made_by(handler: Any) -> list[Any]:
    """The connections or caches that a handler of Django's has made in this thread."""
    try:
        return list(handler.all(initialized_only=True))
    except TypeError:  # before Django 4.1: it makes an object for each, and opens nothing
        return list(handler.all())


def is_in_transaction(connection: Any) -> bool:
    """Whether a connection of Django's is inside `transaction.atomic()`."""
    return connection.connection is not None and bool(getattr(connection, "in_atomic_block", False))


def keep(engines: list[Any]) -> None:
    """Have direct children of this process forget Django's connections, and those of engines."""
    global _owner, _hooked
    _owner = os.getpid()
    _engines.update(engines)
    if not _hooked:
        os.register_at_fork(after_in_child=forget)
        _hooked = True


def forget() -> None:
    """Forget what the parent goes on using. In the child, right after the fork."""
    global _owner
    if not _owner or _owner == os.getpid():
        return
    _owner = 0  # children of this process do not forget connections that it opens itself
    for connection in django_connections():
        with suppress(Exception):
            _forget_django(connection)
    for engine in list(_engines):
        with suppress(Exception):
            _parked.append(engine.pool)
            for connection in _idle_of(engine):
                _detach(connection)
            engine.pool = engine.pool.recreate()
    _engines.clear()


def _forget_django(connection: Any) -> None:
    """Have Django connect again. Source: Django 3.2 to 6.1, db/backends/base/base.py."""
    pools = getattr(connection, "_connection_pools", None)
    if pools:
        _parked.append(dict(pools))
        pools.clear()
    is_in_memory = getattr(connection, "is_in_memory_db", lambda: False)
    if connection.connection is None or is_in_memory():
        return
    _parked.append(connection.connection)
    _detach(connection.connection)
    # The next query connects, and begins outside of any transaction.
    connection.connection, connection.run_on_commit = None, []


def _detach(connection: Any) -> None:
    """Have the descriptor of a connection lead nowhere, so that nothing is sent by mistake."""
    with suppress(Exception):
        number = connection.fileno()
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.dup2(nowhere, number, inheritable=False)
        finally:
            os.close(nowhere)


def _idle_of(engine: Any) -> Iterator[Any]:
    """Idle connections of a pool. Source: SQLAlchemy 1.4 to 2.1, pool/impl.py (`QueuePool`)."""
    for record in list(getattr(getattr(engine.pool, "_pool", None), "queue", ())):
        found = getattr(record, "dbapi_connection", None)
        if found is not None:
            yield found


def sockets() -> frozenset[int]:
    """Inodes of the connections that children will forget. In the parent, before the fork."""
    if _owner != os.getpid():
        return frozenset()
    found = set()
    idle = (one for engine in list(_engines) for one in _idle_of(engine))
    for connection in (*(one.connection for one in django_connections()), *idle):
        with suppress(Exception):
            found.add(os.fstat(connection.fileno()).st_ino)
    return frozenset(found)


def hazards() -> Iterator[Hazard]:
    """Transactions that are open at the fork."""
    with suppress(Exception):
        for connection in django_connections():
            if is_in_transaction(connection):
                name = f"the open transaction of Django's connection {connection.alias!r}"
                yield Hazard(name, _IN_CHILDREN, Reason.TRANSACTION)
