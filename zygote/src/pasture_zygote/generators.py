"""Generators of random numbers that were seeded before a process was copied.

A fork hook reseeds `random`; generators that ask the kernel each time need nothing. Owns the others
of the standard library, and numpy's and OpenSSL's. Those that a module has made for itself are its
own: a `Note` says so (`observed`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pasture_zygote import observed

_Generate = Callable[[], tuple[bytes, int | None]]
_from_library: _Generate | None = None


def renew() -> None:
    """Give all of them a state of their own. Where a copy has come to life."""
    loaded = sys.modules
    for name, renew_one in _RENEWED.items():
        if name in loaded:
            renew_one(loaded[name])


def _renew_numpy(mtrand: Any) -> None:
    mtrand.seed()


def _renew_openssl(ssl: Any) -> None:
    ssl.RAND_add(os.urandom(32), 0.0)


def _renew_sqlite(sqlite: Any) -> None:
    """It forgets its state when it opens a file in another process than before (SQLite 3.50
    os_unix.c, unixOpen); a database in memory is no file."""
    if observed.used_sqlite:
        sqlite.connect("file:/dev/null?mode=ro", uri=True).close()


def _renew_uuid(uuid: Any) -> None:
    """The C library of version 1 has a clock sequence, which no other process may have."""
    global _from_library
    for name in ("_last_timestamp", "_last_timestamp_v6", "_last_timestamp_v7"):
        if hasattr(uuid, name):
            setattr(uuid, name, None)
    uuid._node = None  # drawn, or of a network card that this machine may not have
    if uuid._generate_time_safe is not None:
        _from_library = _from_library or uuid._generate_time_safe
        uuid._generate_time_safe = _with_clock_sequence(_from_library, os.urandom(2))


def _with_clock_sequence(generate: _Generate, drawn: bytes) -> _Generate:
    high, low = drawn[0] & 0x3F, drawn[1]

    def generate_time_safe() -> tuple[bytes, int | None]:
        data, status = generate()
        if status == 0:  # synchronized with all other processes
            return data, status
        return bytes((*data[:8], data[8] ^ high, data[9] ^ low, *data[10:])), status

    return generate_time_safe


_RENEWED: Mapping[str, Callable[[Any], None]] = {
    "numpy.random.mtrand": _renew_numpy,
    "_ssl": _renew_openssl,
    "_sqlite3": _renew_sqlite,
    "uuid": _renew_uuid,
}
