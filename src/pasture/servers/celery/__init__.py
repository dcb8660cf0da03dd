"""Celery's prefork pool, sealed. Importing this package is the switch.

In the module of the Celery application:

    import pasture.servers.celery

or `pasture run celery -A proj worker`. The parent is sealed when its first pool process is
forked, once all task modules are imported, and again if much was loaded since; processes
that replace others are forked from the sealed parent, and end by `os._exit` in any case.
docs/queues.md is the user's guide.

Written for Celery 5.4 to 5.7; leans on the signal `celeryd_after_setup`, on
`billiard.pool.mem_rss`, and on a restart (HUP) that runs `sys.argv` as a script.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, NoReturn

from pasture.errors import PastureError, UsageError
from pasture.servers.engine import Engine, installed
from pasture.servers.recycle import MemoryLimit
from pasture.trust.untrusted_text import complain

with installed("celery"):
    from celery import signals

    from pasture.servers.celery import pool

PREFORK = "celery.concurrency.prefork"


class Celery(Engine):
    """Workers that are about to start their pool, as Celery's `WorkController`."""

    name = "celery"
    loads_early = True

    def install(self) -> None:
        signals.celeryd_after_setup.connect(
            lambda instance, **_: self.begin(instance), weak=False, dispatch_uid="pasture"
        )

    def check(self, started: Any) -> None:
        given = started.pool_cls
        module = given if isinstance(given, str) else given.__module__
        if module not in (PREFORK, "prefork", "processes"):
            name = module.rpartition(".")[2]
            raise UsageError(
                f"the pool {name!r} does not fork: there is nothing to share",
                hint="use --pool prefork, or leave pasture out",
            )
        method = started.app.conf.get("worker_pool_start_method", "fork")
        if method not in ("fork", None):
            raise UsageError(
                f"worker_pool_start_method {method!r} starts fresh "
                "interpreters: there is nothing to share",
                hint="set it to 'fork'",
            )

    def load(self, started: Any) -> None:
        """Change the pool, and import what each of its processes would import for itself."""
        limit = self.settings.memory_limit
        if limit is not None:
            started.max_memory_per_child = limit.limit_bytes // 1024
        elif started.max_memory_per_child:
            limit = MemoryLimit(started.max_memory_per_child * 1024)
        if limit is not None:
            pool.count_private_memory(limit)
        import_transports(started.app)
        pool.survive_shortages()
        pool.end_pool_with_parent()

    def end(self, error: PastureError) -> NoReturn:
        sys.stdout.flush()
        os._exit(complain(error))  # Celery's signal would take an exception for its own

    def command(self) -> Any:
        from celery.__main__ import main

        sys.argv[0] = self.restarted
        return main()


def import_transports(app: Any) -> None:
    """Import the clients of broker and results. Nothing is connected.

    Celery reports what cannot be imported.
    """
    with contextlib.suppress(Exception):
        app.connection_for_write().transport  # noqa: B018
    with contextlib.suppress(Exception):
        app.backend  # noqa: B018


engine = Celery.switch_on()
