"""The life of a gunicorn worker, and after it that of a mold, in one process.

A loop does what gunicorn's spawn_worker does in the child: where a mold forks, the new process
returns to the start of the loop and lives as a worker. So the stack is as deep in the hundredth
generation as in the first. Invariant: a mold serves no requests and calls no methods of a worker's
class. Its heartbeat only touches the file: a class may extend `notify` by a call that needs its
`init_process`, or a connection, which the workers would inherit.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from typing import Any, NoReturn

from gunicorn import util
from gunicorn.errors import AppImportError
from gunicorn.workers.base import Worker

from pasture.errors import PastureError
from pasture.own_values import generators
from pasture.proc.parent import end_with_parent
from pasture.refork.channel import Channel
from pasture.refork.mold import ENDING, Refused, Start, fork_for, make_mold, policy_of_molds
from pasture.scoreboard.board import Row, Scoreboard
from pasture.sealing import exit
from pasture.sealing.gc_settings import begin_loading
from pasture.servers.gunicorn import asgi, cooperative
from pasture.servers.gunicorn.hooks import Behind
from pasture.servers.gunicorn.refork.promotion import Promotable
from pasture.serving.moved_import import EndedBySignal, moved_import
from pasture.trust.untrusted_text import complain

BROKEN_MOLD = 70
"""Exit code of a later generation's worker that cannot boot; gunicorn's would end the server."""

_IDLE_S = 1.0


def make_handle(arbiter: Any, age: int) -> Any:
    """gunicorn's object for a worker, made in the arbiter, or in a mold before its fork."""
    return arbiter.worker_class(
        *(age, arbiter.pid, arbiter.LISTENERS, arbiter.app, arbiter.timeout / 2.0),
        *(arbiter.cfg, arbiter.log),
    )


def live(arbiter: Any, start: Start, board: Scoreboard) -> NoReturn:
    """Load the application and live as the mold of generation 0. In the arbiter's child.

    The processes that it forks live here as workers, and then, if promoted, as molds.
    """
    child = _live_as_first_mold(arbiter, start)
    while True:
        start.worker.tmp.close()  # the mold's
        start = child
        child = _life(arbiter, start, board)


def _live_as_first_mold(arbiter: Any, start: Start) -> Start:
    """Live as the first mold. Returns in the workers that it forks."""
    worker = start.worker
    util._setproctitle(f"mold [{arbiter.proc_name}]")
    for number in {*worker.SIGNALS, *ENDING}:
        signal.signal(number, _end if number in ENDING else signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, partial(Worker.handle_usr1, worker))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    end_with_parent(arbiter.pid, signal.SIGTERM)
    generators.observe()  # a worker becomes a parent, with all generators that it has seeded
    begin_loading(arbiter.settings.policy)  # it is a child of the arbiter's seal
    moved = moved_import(
        arbiter.settings,
        partial(_leave_to_workers, start.channel),
        log=arbiter.write_to_log,
        is_asked_for=arbiter.cfg.preload_app,
        signals=(*arbiter.SIGNALS, signal.SIGCHLD),
    )
    try:
        with moved:
            arbiter.load_as_in_worker()
    except PastureError as error:
        os._exit(complain(error))
    except Exception as error:
        arbiter.log.exception("pasture: the application cannot be loaded")
        is_missing = isinstance(error, AppImportError)
        os._exit(arbiter.APP_LOAD_ERROR if is_missing else arbiter.WORKER_BOOT_ERROR)
    arbiter.seal_or_end()
    if "leave" in arbiter.settings.policy.at_exit:
        exit.install()  # finalization would write to shared pages
    child: Start | None = None
    if start.channel.send("loaded"):
        child = fork_for(start.channel, partial(_make_worker, arbiter), worker.tmp.notify, _IDLE_S)
    if child is None:
        for number in ENDING:  # SystemExit would be an error here
            signal.signal(number, signal.SIG_DFL)
        sys.exit(0)
    return child


def _leave_to_workers(channel: Channel, why: str) -> None:
    """Have the arbiter start without pasture. Ends this process."""
    channel.send("plain", why=why)
    os._exit(0)


def _end(*_: object) -> NoReturn:
    raise EndedBySignal(0)


def _life(arbiter: Any, start: Start, board: Scoreboard) -> Start:
    """The life of a worker. Returns only in workers that it forks later, as a mold."""
    worker = start.worker
    child: Start | None = None
    worker.pid = os.getpid()
    try:
        util._setproctitle(f"worker [{arbiter.proc_name}]")
        arbiter.log.info("Booting worker with pid: %s", worker.pid)
        arbiter.cfg.post_fork(arbiter, worker)
        promotable = _promotable(worker, start.channel, Row(board.words, start.slot))
        worker.init_process()
        if promotable.generation is not None:
            with promotable.become_mold():
                child = _live_as_mold(arbiter, worker, promotable)
        if child is None:
            sys.exit(0)
    except SystemExit as end:  # by uvicorn, if the application's lifespan fails
        if start.generation and end.code in (arbiter.WORKER_BOOT_ERROR, arbiter.APP_LOAD_ERROR):
            sys.exit(BROKEN_MOLD)
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
            arbiter.log.info("Worker exiting (pid: %s)", worker.pid)
            try:
                worker.tmp.close()
                arbiter.cfg.worker_exit(arbiter, worker)
            except Exception:
                arbiter.log.warning("Exception during worker exit", exc_info=True)
    return child


def _promotable(worker: Any, channel: Channel, row: Row) -> Promotable:
    """The `Promotable` of a worker that may become a mold."""
    # Imported only here: other workers need neither asyncio nor gevent.
    if asgi.is_of(type(worker), cooperative.OF_GEVENT):
        from pasture.servers.gunicorn.refork.gevent_promotion import GeventPromotable

        return GeventPromotable(worker, channel, row)
    if asgi.is_of(type(worker), asgi.OF_GUNICORN + asgi.OF_UVICORN):
        from pasture.servers.gunicorn.refork.asgi_promotion import LoopPromotable, UvicornPromotable

        is_uvicorns = asgi.is_of(type(worker), asgi.OF_UVICORN)
        return (UvicornPromotable if is_uvicorns else LoopPromotable)(worker, channel, row)
    return Promotable(worker, channel, row)


def _live_as_mold(arbiter: Any, worker: Any, promotable: Promotable) -> Start | None:
    """Seal this process and fork for the arbiter. Returns None in the mold itself, at its end."""
    util._setproctitle(f"mold [{arbiter.proc_name}]")
    signal.signal(signal.SIGTERM, promotable.handle_end)
    worker.tmp.notify()
    channel = promotable.channel
    if channel.receive() is not None:  # closed: the arbiter ends, and this was the last request
        return None
    try:
        promotable.leave_service()
        report = make_mold(policy_of_molds(arbiter.settings.policy), promotable.hazards)
    except Refused as refusal:
        channel.send("refused", why=str(refusal))
        promotable.wake_arbiter()
        return None
    arbiter.cfg.set("initgroups", False)  # done already, and not allowed any more
    worker.tmp.notify()
    if not channel.send("sealed", report=str(report)):
        return None
    promotable.wake_arbiter()
    before_fork = partial(_make_worker, arbiter)
    return fork_for(channel, before_fork, worker.tmp.notify, _IDLE_S)


def _make_worker(arbiter: Any, start: Start) -> Any:
    """The worker that the arbiter asked for, with the arbiter's file for its heartbeat.

    In the mold, before the fork, so that each process need not repeat it. A failing `pre_fork` ends
    the mold of generation 0, with gunicorn's exit code; another mold is given up.
    """
    worker = make_handle(arbiter, start.age)
    os.dup2(start.files[0], worker.tmp.fileno(), inheritable=False)
    hook = arbiter.cfg.pre_fork
    users = hook.users if isinstance(hook, Behind) else hook
    try:
        users(arbiter, worker)
    except Exception:
        if start.generation:
            raise
        arbiter.log.exception("Exception in pre_fork")
        sys.exit(-1)
    return worker
