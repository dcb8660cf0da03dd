"""Asynchronous clients of which no more is known than how their objects are closed.

Tried with httpcore 1.0, elastic-transport 9.4, aiohttp 3.14, asyncpg 0.32, psycopg 3.3, aiosqlite
0.22.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from pasture.fork_safety.library import Close, Library, LoopOwned


def _close(one: Any) -> Awaitable[object]:
    closing: Awaitable[object] = one.close()
    return closing


def _is_open(one: Any) -> bool:
    return not one.closed


def _unbound(module: str, name: str, close: Close, attribute: str) -> LoopOwned:
    return LoopOwned(module, name, close, is_for_good=False, unbind=(attribute,))


def _pool_of_httpcore(module: str) -> LoopOwned:
    def is_open(pool: Any) -> bool:
        return bool(pool.connections)

    name = "AsyncConnectionPool"
    return LoopOwned(module, name, lambda pool: pool.aclose(), is_open, is_for_good=False)


CARD = Library(
    on_loop=(
        _pool_of_httpcore("httpcore"),
        _pool_of_httpcore("httpcore2"),
        _unbound("elastic_transport", "AsyncTransport", lambda one: None, "_loop"),
        _unbound("elastic_transport", "AiohttpHttpNode", _close, "_loop"),
        _unbound("motor.core", "AgnosticClient", lambda one: None, "_io_loop"),
        LoopOwned(
            "pymongo", "AsyncMongoClient", _close, lambda one: bool(getattr(one, "_opened", True))
        ),
        LoopOwned("aiohttp", "ClientSession", _close, _is_open),
        LoopOwned(
            "asyncpg.pool",
            "Pool",
            _close,
            lambda one: bool(getattr(one, "_initialized", True)) and not one.is_closing(),
        ),
        LoopOwned("asyncpg.connection", "Connection", _close, lambda one: not one.is_closed()),
        LoopOwned("psycopg_pool", "AsyncConnectionPool", _close, _is_open),
        LoopOwned("psycopg", "AsyncConnection", _close, _is_open),
        LoopOwned(
            "aiosqlite", "Connection", _close, lambda one: bool(getattr(one, "_connection", None))
        ),
    )
)
