"""No pool process of Celery outlives its parent, however early in its life that is killed.

Celery has the kernel kill each pool process when its parent ends, but only once the process has
begun to set itself up. If the parent is killed before that, two such processes keep each other
alive: each holds the end of the other's pipe whose closing would tell it. Written for billiard
4.2 and 4.3; leans on `Worker.after_fork` and on a process's `_parent_pid`.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

from billiard.pool import Worker
from billiard.process import current_process
from billiard.util import set_pdeathsig


def end_with_parent() -> None:
    """Have the pool processes that this one forks end when it does."""
    after_fork = Worker.after_fork

    def after_fork_of_a_child(worker: Any) -> None:
        with contextlib.suppress(OSError):  # as Celery does, when it sets the same
            set_pdeathsig(signal.SIGKILL)
        if os.getppid() != current_process()._parent_pid:
            os._exit(1)  # the parent had ended before the kernel knew
        after_fork(worker)

    Worker.after_fork = after_fork_of_a_child
