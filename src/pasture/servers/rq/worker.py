"""A worker of RQ, or a pool of them, with a seal before the first fork.

Owns when that is, and what is refused. Everything else is RQ's: its work horses end by `os._exit`
in any case. Written for RQ 2.0 to 2.12; leans on `BaseWorker.work` and `WorkerPool.start`.
"""

from __future__ import annotations

import logging
from typing import Any

import rq.worker
import rq.worker_pool

from pasture.errors import PastureError, UsageError
from pasture.sealing.gc_settings import begin_loading
from pasture.servers.complaint import end_or_warn
from pasture.servers.sealer import seal_before_forks
from pasture.servers.settings import ServerSettings, settings_or_end

log = logging.getLogger("pasture")

_FORK_NOTHING = ("SimpleWorker", "SpawnWorker", "AsyncWorker")

refuses = False
"""Whether a worker that forks nothing is ended, rather than warned and let run."""

_began = False


def install() -> None:
    """Have the workers and pools of this process sealed, should they be started."""
    settings = settings_or_end()
    _begin_with(rq.worker.BaseWorker, "work", type, settings)
    _begin_with(rq.worker_pool.WorkerPool, "start", lambda pool: pool.worker_class, settings)


def _begin_with(owner: Any, name: str, kind_of: Any, settings: ServerSettings) -> None:
    original = getattr(owner, name)

    def begin_sealed(self: Any, *arguments: Any, **named: Any) -> Any:
        begin(kind_of(self), settings)
        return original(self, *arguments, **named)

    setattr(owner, name, begin_sealed)


def begin(kind: type, settings: ServerSettings) -> None:
    """Watch the forks of this process, if workers of this class fork work horses.

    Only in the first that begins: workers of a pool are forked from a sealed parent already.
    """
    global _began
    if _began:
        return
    _began = True
    try:
        refuse(kind)
    except PastureError as error:
        end_or_warn(error, ends=refuses or settings.strict)
        return
    begin_loading(settings.policy)
    seal_before_forks(settings, works=True)


def refuse(kind: type) -> None:
    """Raise if workers of this class fork no work horses.

    Raises:
        UsageError: jobs run in the worker itself, or in fresh interpreters.
    """
    found = [one.__name__ for one in kind.__mro__ if one.__name__ in _FORK_NOTHING]
    if found:
        raise UsageError(
            f"rq's {kind.__name__} does not fork: there is nothing to share",
            hint="use rq.Worker, or leave pasture out",
        )
