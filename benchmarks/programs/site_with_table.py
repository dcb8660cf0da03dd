"""The bundled site with a table in memory, of which each request reads rows in random order first.

TABLE_ROWS=325000 gunicorn site_with_table:application    # 500 MB
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from typing import Any

from fork import read, records  # type: ignore[import-not-found]
from meadow.wsgi import application as site  # type: ignore[import-not-found]

READS = 20_000
"""Rows that a request reads: about as long as the site takes for a page."""

_table = records(int(os.environ["TABLE_ROWS"]))
_order = list(range(len(_table)))
random.Random(11).shuffle(_order)
_read = 0


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    global _read
    read(_table, _order[_read : _read + READS])
    _read = (_read + READS) % len(_table)
    answer: Iterable[bytes] = site(environ, start_response)
    return answer
