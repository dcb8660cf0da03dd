"""Generators of random numbers that were seeded before a process was copied.

A fork hook reseeds `random`; generators that ask the kernel each time need nothing. Those that a
fork copies, too, are renewed as after a fork (`pasture.own_values.generators`). Owns those that
notice a fork by themselves, and no other copy: OpenSSL's and SQLite's. What a module has drawn for
itself is its own: a `Note` says so (`observing`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pasture.own_values import generators

used_sqlite = False
"""Whether modules have opened a database."""


def renew() -> None:
    """Give all of them a state of their own. Where a copy has come to life."""
    generators.renew(other_machine=True)
    loaded = sys.modules
    for name, renew_one in _RENEWED.items():
        if name in loaded:
            renew_one(loaded[name])


def prepare() -> None:
    """Have OpenSSL look its algorithms up, which it does once. Before the process is copied."""
    if "_ssl" in sys.modules:
        _renew_openssl(sys.modules["_ssl"])


def _renew_openssl(ssl: Any) -> None:
    ssl.RAND_add(os.urandom(32), 0.0)


def _renew_sqlite(sqlite: Any) -> None:
    """It forgets its state when it opens a file in another process than before (SQLite 3.50
    os_unix.c, unixOpen); a database in memory is no file."""
    if used_sqlite:
        sqlite.connect("file:/dev/null?mode=ro", uri=True).close()


_RENEWED: Mapping[str, Callable[[Any], None]] = {
    "_ssl": _renew_openssl,
    "_sqlite3": _renew_sqlite,
}
