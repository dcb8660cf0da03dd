"""Libraries with small cards: their threads, or how their objects are closed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Iterator
from typing import Any

from pasture.fork_safety.library import Close, Closing, Library, LoopOwned, Named, version_of
from pasture.reasons import Hazard

_ONE_THREAD = "set OPENBLAS_NUM_THREADS=1 for the master, or compute in workers only"
_OWN_PROCESS = "run it in a process of its own"


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


def _hazards_of_torch() -> Iterator[Hazard]:
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and getattr(cuda, "_initialized", False):
        yield Hazard("CUDA, which is initialized", "use the GPU in workers only")


def _forget_progress(problems: list[str]) -> int:
    """Remove locks and threads that bars of tqdm share, once no bar is left; both are made again.

    Source: tqdm 4.67, std.py (`get_lock`, `create_mp_lock`, `__new__`).
    """
    std: Any = sys.modules.get("tqdm.std")
    if std is None or std.tqdm._instances:
        return 0
    found, kinds = 0, [std.tqdm]
    for kind in kinds:
        kinds += type.__subclasses__(kind)
        monitor, lock = vars(kind).get("monitor"), vars(kind).get("_lock")
        if monitor is not None:
            monitor.exit()
            kind.monitor = None
        if type(lock) is std.TqdmDefaultWriteLock:
            del kind._lock
        found += lock is not None
    if hasattr(std.TqdmDefaultWriteLock, "mp_lock"):
        del std.TqdmDefaultWriteLock.mp_lock
    return found


def _keeps_its_lock(thread: threading.Thread) -> bool:
    """Whether a thread of Sentry's flushes under a lock that a child does not renew.

    Source: sentry-sdk 2.57 and 2.59, _batcher.py (`_flush_loop`, `_reset_thread_state`).
    """
    batcher = getattr(getattr(thread, "_target", None), "__self__", None)
    return hasattr(batcher, "_flush_loop") and not hasattr(batcher, "_reset_thread_state")


CLIENTS = Library(
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
"""Asynchronous clients. Tried with httpcore 1.0, elastic-transport 9.4, aiohttp 3.14, asyncpg 0.32,
psycopg 3.3, aiosqlite 0.22."""

CARDS = (
    # Tried with 2.57, 2.59 and 2.75: its batchers renew their locks in each child from 2.59 on.
    Library(
        package="sentry-sdk",
        restarted=("sentry",),
        restarts_all=True,
        locks=_keeps_its_lock,
        remedy="use sentry-sdk 2.59 or newer, which renews its locks in each child",
    ),
    # Tried with 6.9, 7.12, 7.15, 7.20 and 7.91.
    Library(
        package="posthog",
        restarts_all=True,
        starts_them=lambda: version_of("posthog.version", "VERSION") >= (7, 15),
        remedy="use posthog 7.15 or newer, which starts it again in each worker; or make the "
        "client there",
    ),
    Library(
        threads=(
            Named("ThreadPoolExecutor", "a thread pool", "make it at its first use in each worker"),
        )
    ),
    Library(
        package="apscheduler",
        remedy=_OWN_PROCESS,
        threads=(Named("APScheduler", "a scheduler", _OWN_PROCESS),),
    ),
    Library(package="confluent-kafka", remedy="make producers and consumers in each worker"),
    # Tried with OpenBLAS of numpy 2.5 and scipy 1.18, pyarrow 26, numexpr 2.14, tokenizers 0.23 and
    # uvloop 0.23.
    Library(package="numpy", remedy=_ONE_THREAD, native_files="openblas"),
    Library(package="scipy", remedy=_ONE_THREAD),
    Library(package="pyarrow", native_files=r"libarrow\."),
    Library(package="numexpr", native_files="/numexpr/"),
    Library(package="tokenizers", native_files="/tokenizers/"),
    Library(package="uvloop", native_files="/uvloop/"),
    Library(package="tqdm", closings=(Closing("tqdm", _forget_progress),)),
    Library(package="torch", hazards=_hazards_of_torch),
)
