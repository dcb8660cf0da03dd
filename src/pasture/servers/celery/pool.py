"""What is changed of Celery's pool, for its pool processes to be there and to end when they should.

Three things, each by a method of billiard's that is wrapped:

- No pool process outlives its parent, however early in its life that is killed. Celery has the
  kernel kill each pool process when its parent ends, but only once the process has started to set
  itself up. If the parent is killed before that, two such processes keep each other alive: each
  holds the end of the other's pipe whose closing would show it.
- The pool goes on when the system has no process for a replacement. Celery takes a fork that fails
  for a reason to end, and its tasks with it. Here what is left of the pool works on, and the
  pool's own timer tries again.

Written for billiard 4.2 and 4.3; leans on `Worker.after_fork`, a process's `_parent_pid`,
`Pool._repopulate_pool`, `Pool._pool` and, of Celery's `AsynPool`, `_queues`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import billiard.pool
from billiard.pool import Pool, Worker
from billiard.process import current_process

from pasture.log_lines import log
from pasture.proc.parent import end_with_parent
from pasture.refork.shortage import Backoff, is_shortage
from pasture.servers.after_response import AfterResponse
from pasture.servers.recycle import MemoryLimit


def end_pool_with_parent() -> None:
    """Have the pool processes that this one forks end when it does."""
    after_fork = Worker.after_fork

    def after_fork_of_a_child(worker: Any) -> None:
        end_with_parent(current_process()._parent_pid)
        after_fork(worker)

    Worker.after_fork = after_fork_of_a_child


def survive_shortages() -> None:
    """Have the pools of this process go on without the replacements that cannot be had."""
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
            _close_pipe_of(error.__traceback__)
            wait_s = backoff.failed(time.monotonic())
            log.error("no new worker: %s; next try in %.0f s or more", error, wait_s)
        else:
            backoff.succeeded()

    Pool._repopulate_pool = repopulate_if_possible


def _undo(pool: Any, new: Sequence[Any]) -> None:
    """The last of new processes has failed, after the pool has noted it and its queues.

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


def _close_pipe_of(trace: TracebackType | None) -> None:
    """The pipe that billiard has opened for the fork; nothing else would close it."""
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "_launch":
            for name in ("parent_r", "child_w"):
                with contextlib.suppress(KeyError, OSError):
                    os.close(trace.tb_frame.f_locals[name])
        trace = trace.tb_next


def count_private_memory(limit: MemoryLimit) -> None:
    """Have `worker_max_memory_per_child` count private memory in place of peak RSS.

    Celery looks after each task, in the pool process, once the result is sent; it then ends
    the process as it does at `worker_max_tasks_per_child`.
    """
    after = AfterResponse(limit)

    def memory_kib() -> int:
        watch = after.passed()
        if watch is None:
            return 1  # 0 would mean that it is not known
        log.warning("recycling pool process %s: %s", os.getpid(), watch)
        return max(watch.uss_bytes, limit.limit_bytes) // 1024 + 1

    billiard.pool.mem_rss = memory_kib
