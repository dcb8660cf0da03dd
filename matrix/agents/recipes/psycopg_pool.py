"""psycopg's pool of connections to PostgreSQL, which threads of its own look after."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from psycopg_pool import ConnectionPool

pool: Any = None


def start() -> None:
    global pool
    pool = ConnectionPool(os.environ["POSTGRES_URL"], min_size=1, max_size=2, timeout=5)
    pool.wait()


def report(mark: Callable[[str], str]) -> None:
    with pool.connection() as connection:
        connection.execute("INSERT INTO marks VALUES (%s)", (mark("row"),))
