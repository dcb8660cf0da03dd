"""RQ's workers, which fork a work horse for each job. Importing this module is the switch.

In a program that makes an `rq.Worker` or an `rq.worker_pool.WorkerPool`
`import pasture.servers.rq`, or `pasture run --preload my_tasks rq worker`. Work horses end by
`os._exit` in any case. docs/queues.md is the user's guide.

Written for RQ 2.0 to 2.12; leans on `BaseWorker.work` and `WorkerPool.start`.
"""

from __future__ import annotations

from typing import Any

from pasture.errors import UsageError
from pasture.servers.engine import Engine, installed

with installed("rq"):
    import rq.worker
    import rq.worker_pool

_FORK_NOTHING = ("SimpleWorker", "SpawnWorker", "AsyncWorker")


class Rq(Engine):
    """RQ's workers and pools, by the class of the workers."""

    name = "rq"
    works = True

    def install(self) -> None:
        self.before(rq.worker.BaseWorker, "work", type)
        self.before(rq.worker_pool.WorkerPool, "start", lambda pool: pool.worker_class)

    def check(self, started: type) -> None:
        found = [one.__name__ for one in started.__mro__ if one.__name__ in _FORK_NOTHING]
        if found:
            raise UsageError(
                f"rq's {started.__name__} does not fork: there is nothing to share",
                hint="use rq.Worker, or leave pasture out",
            )

    def command(self) -> Any:
        from rq.cli import main

        return main(prog_name="rq")


engine = Rq.switch_on()
