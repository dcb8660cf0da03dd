"""Celery's prefork pool, sealed. Importing this module is the switch.

In the module of the Celery application `import pasture.servers.celery`, or
`pasture run celery -A proj worker`. The parent is sealed when its first pool process is forked,
once all task modules are imported, and again if much was loaded since; processes that replace
others are forked from the sealed parent, and end by `os._exit` in any case. docs/queues.md is the
user's guide.

Written for Celery 5.4 to 5.7 and billiard 4.2 and 4.3; leans on the signal `celeryd_after_setup`,
on a restart (HUP) by `celery.apps.worker._reload_current_worker`, which runs `sys.argv` as a
script, on `billiard.pool.mem_rss`, `Worker.after_fork`, a process's `_parent_pid`,
`Pool._repopulate_pool`, `Pool._pool` and, of `AsynPool`, `_queues`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from traceback import walk_tb
from typing import Any, NoReturn

from pasture.errors import PastureError, UsageError
from pasture.log_lines import log
from pasture.proc.parent import end_with_parent
from pasture.refork.shortage import Backoff, is_shortage
from pasture.servers import spawning
from pasture.servers.engine import Engine, installed
from pasture.serving.after_response import AfterResponse
from pasture.serving.starter import starter
from pasture.trust.untrusted_text import complain

with installed("celery"):
    import billiard.pool
    from billiard.pool import Pool, Worker
    from billiard.process import current_process
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
        """Change the pool, and import what each of its processes would import for itself."""
        if _spawns(started):
            # The setting asks for processes that have nothing of this one, which has threads.
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
        survive_shortages()
        end_pool_with_parent()
        restart_out_of_the_image()

    def end(self, error: PastureError) -> NoReturn:
        sys.stdout.flush()
        os._exit(complain(error))  # Celery's signal would take an exception for its own

    def command(self) -> Any:
        from celery.__main__ import main

        sys.argv[0] = self.restarted
        return main()


def _spawns(started: Any) -> bool:
    method = getattr(started, "pool_start_method", None)  # since Celery 5.7
    return bool((method or started.app.conf.get("worker_pool_start_method")) == "spawn")


def _imported_by_each(app: Any) -> list[str]:
    """What a spawned pool process imports before its first task. Source: prefork.py,
    process_initializer."""
    pool = ("billiard.sharedctypes", "billiard.synchronize", PREFORK)
    own = ("celery.app.log", "celery.app.trace", type(app.loader).__module__)
    tasks = (*app.loader.builtin_modules, *app.conf.imports, *app.conf.include)
    modules = [*pool, *own, *tasks]
    with contextlib.suppress(Exception):  # Celery reports what cannot be imported
        modules.append(type(app.backend).__module__)
    is_django = "DJANGO_SETTINGS_MODULE" in os.environ and "django.apps" in sys.modules
    return ["django:setup", *modules] if is_django else modules


def end_pool_with_parent() -> None:
    """Have the pool processes that this one forks end when it does, however early in their lives.

    Celery asks the kernel for it, once a process sets itself up. Two that were forked shortly
    before their parent's end would keep each other alive: each holds the end of the other's pipe
    whose closing would show it.
    """
    after_fork = Worker.after_fork

    def after_fork_of_a_child(worker: Any) -> None:
        end_with_parent(current_process()._parent_pid)
        after_fork(worker)

    Worker.after_fork = after_fork_of_a_child


def restart_out_of_the_image() -> None:
    """Have a restart (HUP) start the worker by what has started this one: Celery takes python."""
    from celery.apps import worker
    from celery.platforms import close_open_fds

    def reload_current_worker() -> NoReturn:
        close_open_fds([sys.__stdin__, sys.__stdout__, sys.__stderr__])
        os.execv(starter(), [starter(), *sys.argv])

    worker._reload_current_worker = reload_current_worker


def survive_shortages() -> None:
    """Have the pools of this process go on while the system has no process for a replacement.

    Celery takes such a fork for a reason to end. Here the pool's own timer tries again.
    """
    repopulate = Pool._repopulate_pool
    backoff = Backoff()

    def repopulate_if_possible(pool: Any, exitcodes: Any) -> None:
        if not backoff.may_try(time.monotonic()):
            return
        before = list(pool._pool)
        try:
            repopulate(pool, exitcodes)
        except OSError as error:
            if not is_shortage(error):
                raise
            _undo(pool, [worker for worker in pool._pool if worker not in before])
            for frame, _ in walk_tb(error.__traceback__):
                # The pipe that billiard has opened for the fork: nothing else would close it.
                if frame.f_code.co_name == "_launch":
                    for name in ("parent_r", "child_w"):
                        with contextlib.suppress(KeyError, OSError):
                            os.close(frame.f_locals[name])
            wait_s = backoff.failed(time.monotonic())
            log.error("no new worker: %s; next try in %.0f s or more", error, wait_s)
        else:
            backoff.succeeded()

    Pool._repopulate_pool = repopulate_if_possible


def _undo(pool: Any, new: Sequence[Any]) -> None:
    """Undo the last of new processes, which has failed after the pool has noted it and its queues.

    If it was forked, its results are not read: there was no descriptor left to do so. Its end,
    which the pool's timer notices, frees its place.
    """
    for worker in new[-1:]:
        if worker._popen is not None:
            os.kill(worker.pid, signal.SIGKILL)
            continue
        pool._pool.remove(worker)
        for queues, owner in getattr(pool, "_queues", {}).items():
            if owner is worker:
                pool._queues[queues] = None


def count_private_memory(limit: int) -> None:
    """Have `worker_max_memory_per_child` count private memory in place of peak RSS.

    Celery looks after each task, once the result is sent; it then ends the pool process.
    """
    after = AfterResponse(limit)

    def memory_kib() -> int:
        watch = after.passed()
        if watch is None:
            return 1  # 0 would mean that it is not known
        log.warning("recycling pool process %s: %s", os.getpid(), watch)
        return max(watch.uss_bytes, limit) // 1024 + 1

    billiard.pool.mem_rss = memory_kib


engine = Celery.switch_on()
