"""gunicorn's configuration for `benchmarks.rivals`: the recipe that RIVAL names, and no other.

Each recipe is here as its users write it. The one that seals is `pasture run` with no
configuration at all.
"""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Any

RIVAL = os.environ["RIVAL"]
PR_SET_MEMORY_MERGE = 67  # linux/prctl.h, since 6.4

THREADED = RIVAL in ("threads", "free-threaded")

preload_app = not THREADED and RIVAL not in ("workers", "ksm")
workers = 1 if THREADED else int(os.environ["RIVAL_WORKERS"])
threads = int(os.environ["RIVAL_WORKERS"]) if THREADED else 1

_done: list[str] = []


def on_starting(_server: Any) -> None:
    if RIVAL == "freeze":
        gc.disable()  # garbage of the import would leave holes
    if RIVAL == "ksm" and ctypes.CDLL(None, use_errno=True).prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_MEMORY_MERGE")


def pre_fork(_server: Any, _worker: Any) -> None:
    if _done:
        return
    _done.append(RIVAL)
    if RIVAL == "freeze":
        gc.freeze()
    elif RIVAL == "cinderx":
        import cinderx  # type: ignore[import-not-found,import-untyped,unused-ignore]

        cinderx.immortalize_heap()


def post_fork(_server: Any, _worker: Any) -> None:
    if RIVAL == "freeze":
        gc.enable()
    elif RIVAL == "no-gc":
        gc.disable()
