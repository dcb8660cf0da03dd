"""A worker of Celery with a seal before its pool's forks.

Owns when that is, and what is refused. Everything else is Celery's: pool processes end by
`os._exit` in any case. Written for Celery 5.4 to 5.7; leans on the signal
`celeryd_after_setup` and on `billiard.pool.mem_rss`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import Any

import billiard.pool
from celery import signals

from pasture.errors import PastureError, UsageError
from pasture.scoreboard.recorder import recorder
from pasture.sealing.gc_settings import begin_loading
from pasture.servers.celery.pool import end_pool_with_parent, survive_shortages
from pasture.servers.complaint import complain
from pasture.servers.recycle import MemoryLimit, UssWatch
from pasture.servers.sealer import seal_before_forks
from pasture.servers.settings import ServerSettings, settings_or_end

log = logging.getLogger("pasture")

PREFORK = "celery.concurrency.prefork"

refuses = False
"""Whether a worker whose pool does not fork is ended, rather than warned and let run."""


def install() -> None:
    """Have a Celery worker of this process sealed, should one be started."""
    settings = settings_or_end()
    begin_loading(settings.policy)
    signals.celeryd_after_setup.connect(
        lambda instance, **_: after_setup(instance, settings),
        weak=False,
        dispatch_uid="pasture",
    )


def after_setup(worker: Any, settings: ServerSettings) -> None:
    """Watch the forks of a worker that is about to start its pool.

    Args:
        worker: Celery's `WorkController`; its task modules are imported.
    """
    try:
        refuse(worker.pool_cls, worker.app.conf)
    except PastureError as error:
        if refuses or settings.strict:
            sys.stdout.flush()
            os._exit(complain(error))
        log.warning("not sealed: %s", error)
        return
    if settings.memory_limit is not None:
        worker.max_memory_per_child = settings.memory_limit.limit_bytes // 1024
        count_private_memory(settings.memory_limit)
    elif worker.max_memory_per_child:
        count_private_memory(MemoryLimit(worker.max_memory_per_child * 1024))
    import_transports(worker.app)
    survive_shortages()
    end_pool_with_parent()
    seal_before_forks(settings)


def import_transports(app: Any) -> None:
    """Import now what each pool process would import for itself: clients of broker and results.

    Nothing is connected. What cannot be imported is Celery's to tell.
    """
    with contextlib.suppress(Exception):
        app.connection_for_write().transport  # noqa: B018
    with contextlib.suppress(Exception):
        app.backend  # noqa: B018


def refuse(pool: Any, conf: Any) -> None:
    """Raise if the pool's processes are not forked from the worker's parent.

    Args:
        pool: the pool's class, or its name.
        conf: the application's configuration.

    Raises:
        UsageError: it forks nothing, or starts fresh interpreters.
    """
    module = pool if isinstance(pool, str) else pool.__module__
    if module not in (PREFORK, "prefork", "processes"):
        name = module.rpartition(".")[2]
        raise UsageError(
            f"the pool {name!r} does not fork: there is nothing to share",
            hint="use --pool prefork, or leave pasture out",
        )
    if conf.get("worker_pool_start_method", "fork") not in ("fork", None):
        raise UsageError(
            f"worker_pool_start_method {conf.worker_pool_start_method!r} starts fresh "
            "interpreters: there is nothing to share",
            hint="set it to 'fork'",
        )


def count_private_memory(limit: MemoryLimit) -> None:
    """Have `worker_max_memory_per_child` count private memory in place of peak RSS.

    Celery looks after each task, in the pool process, once the result is sent; it then ends
    the process as it does at `worker_max_tasks_per_child`.
    """
    watches: dict[int, UssWatch] = {}

    def memory_kib() -> int:
        watch = watches.get(os.getpid())
        if watch is None:
            watches.clear()  # those of the parent
            watch = watches[os.getpid()] = UssWatch(limit)
        if not watch.has_passed():
            return 1  # 0 would mean that it is not known
        recorder.count("recycles")
        log.warning("recycling pool process %s: %s", os.getpid(), watch)
        return max(watch.uss_bytes, limit.limit_bytes) // 1024 + 1

    billiard.pool.mem_rss = memory_kib
