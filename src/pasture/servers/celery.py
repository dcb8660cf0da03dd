"""Celery's prefork pool, sealed. Importing this module is the switch.

In the module of the Celery application `import pasture.servers.celery`, or
`pasture run celery -A proj worker`. The parent is sealed when its first pool process is forked,
once all task modules are imported. Pool processes end by `os._exit` in any case. docs/queues.md is
the user's guide.

Written for Celery 5.4 to 5.7 and billiard 4.2 and 4.3; leans on the signal `celeryd_after_setup`,
on a restart (HUP) by `celery.apps.worker._reload_current_worker`, which runs `sys.argv` as a
script, and on `billiard.pool.mem_rss`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, NoReturn

from pasture.errors import PastureError, UsageError
from pasture.log_lines import log
from pasture.servers.engine import Engine, installed
from pasture.serving import spawning
from pasture.serving.after_response import AfterResponse
from pasture.serving.starter import starter
from pasture.trust.untrusted_text import complain

with installed("celery"):
    import billiard.pool
    from celery import signals

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
        if _spawns(started) and self.settings.memory_limit is not None:
            raise UsageError(
                "--max-uss counts in pool processes that this one forks",
                hint="set worker_max_memory_per_child, or worker_pool_start_method to 'fork'",
            )

    def load(self, started: Any) -> None:
        """Change the pool, and import the modules that each of its processes would import."""
        if _spawns(started):
            # The setting starts processes from scratch, because this one has threads.
            self.forks = False
            spawning.install(lambda: _imported_by_each(started.app))
            restart_out_of_the_image()
            return
        limit = self.settings.memory_limit
        if limit is not None:
            started.max_memory_per_child = limit // 1024
        elif started.max_memory_per_child:
            limit = started.max_memory_per_child * 1024
        if limit is not None:
            count_private_memory(limit)
        with contextlib.suppress(Exception):  # Celery reports what cannot be imported
            started.app.connection_for_write().transport  # noqa: B018
        with contextlib.suppress(Exception):
            started.app.backend  # noqa: B018
        restart_out_of_the_image()

    def end(self, error: PastureError) -> NoReturn:
        sys.stdout.flush()
        os._exit(complain(error))  # Celery's signal would swallow an exception

    def command(self) -> Any:
        from celery.__main__ import main

        sys.argv[0] = self.restarted
        return main()


def _spawns(started: Any) -> bool:
    method = getattr(started, "pool_start_method", None)  # since Celery 5.7
    return bool((method or started.app.conf.get("worker_pool_start_method")) == "spawn")


def _imported_by_each(app: Any) -> list[str]:
    """Import what a spawned pool process imports first. Source: prefork.py, process_initializer."""
    pool = ("billiard.sharedctypes", "billiard.synchronize", PREFORK)
    own = ("celery.app.log", "celery.app.trace", type(app.loader).__module__)
    tasks = (*app.loader.builtin_modules, *app.conf.imports, *app.conf.include)
    modules = [*pool, *own, *tasks]
    with contextlib.suppress(Exception):  # Celery reports what cannot be imported
        modules.append(type(app.backend).__module__)
    is_django = "DJANGO_SETTINGS_MODULE" in os.environ and "django.apps" in sys.modules
    return ["django:setup", *modules] if is_django else modules


def restart_out_of_the_image() -> None:
    """Have a restart (HUP) start the worker by this process's program: Celery would take python."""
    from celery.apps import worker
    from celery.platforms import close_open_fds

    def reload_current_worker() -> NoReturn:
        close_open_fds([sys.__stdin__, sys.__stdout__, sys.__stderr__])
        os.execv(starter(), [starter(), *sys.argv])

    worker._reload_current_worker = reload_current_worker


def count_private_memory(limit: int) -> None:
    """Have `worker_max_memory_per_child`, asked after each task, count private memory."""
    after = AfterResponse(limit)

    def memory_kib() -> int:
        watch = after.passed()
        if watch is None:
            return 1  # 0 would stand for an unknown size
        log.warning("recycling pool process %s: %s", os.getpid(), watch)
        return max(watch.uss_bytes, limit) // 1024 + 1

    billiard.pool.mem_rss = memory_kib


engine = Celery.switch_on()
