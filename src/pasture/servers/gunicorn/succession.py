"""The life of a gunicorn worker, and after it that of a mold, in one process.

Owns what gunicorn's spawn_worker does in the child, as a loop: where a mold forks, the new
process comes back to the beginning and lives as a worker. The stack so is as deep in the
hundredth generation as in the first.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from gunicorn import util
from gunicorn.errors import AppImportError

from pasture.servers.gunicorn.hooks import BeforeFork
from pasture.servers.gunicorn.promotion import Promotable
from pasture.servers.refork.board import Board, Row
from pasture.servers.refork.line import Line
from pasture.servers.refork.mold import Child, Order, Refused, fork_for, make_mold, policy_of_molds

BROKEN_MOLD = 70
"""Exit code of a worker that cannot boot although others of its generation's parents could.
gunicorn's own codes would end the whole server."""

_IDLE_S = 1.0


@dataclass(frozen=True, slots=True)
class Start:
    """What a new worker begins with."""

    worker: Any
    line: Line
    row: Row
    generation: int


def live(arbiter: Any, start: Start, board: Board) -> NoReturn:
    """Live as a worker; and then, if promoted, as a mold. In the child, after the fork.

    Args:
        arbiter: this process's copy of it.
    """
    while True:
        order, worker = _life(arbiter, start)
        values = order.values
        start = Start(worker, order.line, board.row(values["row"]), values["generation"])


def _life(arbiter: Any, start: Start) -> tuple[Order, Any]:
    """One worker's life. Returns in those alone whom it has forked in the course of it."""
    worker, child = start.worker, None
    worker.pid = os.getpid()
    try:
        util._setproctitle(f"worker [{arbiter.proc_name}]")
        arbiter.log.info("Booting worker with pid: %s", worker.pid)
        arbiter.cfg.post_fork(arbiter, worker)
        promotable = Promotable(worker, start.line, start.row)
        worker.init_process()
        if promotable.generation is not None:
            child = _live_as_mold(arbiter, worker, promotable)
        if child is None:
            sys.exit(0)
    except SystemExit:
        raise
    except AppImportError as error:
        print(error, file=sys.stderr, flush=True)
        sys.exit(BROKEN_MOLD if start.generation else arbiter.APP_LOAD_ERROR)
    except Exception:
        arbiter.log.exception("Exception in worker process")
        if worker.booted:
            sys.exit(-1)
        sys.exit(BROKEN_MOLD if start.generation else arbiter.WORKER_BOOT_ERROR)
    finally:
        if child is None:
            _farewell(arbiter, worker)
    return child.order, child.worker


def _farewell(arbiter: Any, worker: Any) -> None:
    arbiter.log.info("Worker exiting (pid: %s)", worker.pid)
    try:
        worker.tmp.close()
        arbiter.cfg.worker_exit(arbiter, worker)
    except Exception:
        arbiter.log.warning("Exception during worker exit", exc_info=True)


def _live_as_mold(arbiter: Any, worker: Any, promotable: Promotable) -> Child | None:
    """Seal this process and fork for the arbiter. None in the mold itself, at its end."""
    util._setproctitle(f"mold [{arbiter.proc_name}]")
    signal.signal(signal.SIGTERM, worker.handle_quit)
    worker.notify()
    line = promotable.line
    if line.receive() is not None:  # closed: the arbiter ends, and this was the last request
        return None
    try:
        promotable.leave_service()
        report = make_mold(policy_of_molds(arbiter._settings.policy))
    except Refused as refusal:
        line.send("refused", why=str(refusal))
        promotable.wake_arbiter()
        return None
    arbiter.cfg.set("initgroups", False)  # done, and not allowed any more
    worker.notify()
    line.send("sealed", report=str(report))
    promotable.wake_arbiter()
    before_fork = partial(_make_worker, arbiter)
    return fork_for(line, before_fork, worker.notify, _IDLE_S)


def _make_worker(arbiter: Any, order: Order) -> Any:
    """The worker that the arbiter asked for, with the arbiter's file for its heartbeat.

    In the mold, before the fork; what is done here it would have to do in each process.
    """
    worker = arbiter.worker_class(
        *(order.values["age"], arbiter.pid, arbiter.LISTENERS, arbiter.app),
        *(arbiter.timeout / 2.0, arbiter.cfg, arbiter.log),
    )
    os.dup2(order.files[0], worker.tmp.fileno(), inheritable=False)
    hook = arbiter.cfg.pre_fork
    users = hook.users if isinstance(hook, BeforeFork) else hook
    users(arbiter, worker)
    return worker
