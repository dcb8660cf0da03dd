"""`soak_work` on Dask's workers."""

from __future__ import annotations

import os
from collections import deque
from typing import Any

from distributed import Client

_CLIENT: list[Any] = []
_RESULTS: deque[Any] = deque(maxlen=500)
"""What no client refers to, Dask does not compute."""


def job(number: int) -> None:
    from soak_work import work

    work(number)


def put(number: int) -> None:
    if not _CLIENT:
        _CLIENT.append(Client(os.environ["QUEUE_URL"], timeout=120))
    _RESULTS.append(_CLIENT[0].submit(job, number, pure=False, retries=5))
