"""A worker of gunicorn's in a probe: started up to where it would serve connections.

Owns the place where each class of workers serves a request: its thread, a pool of threads, a
greenlet, an event loop. The user's `post_fork`, `post_worker_init`, `worker_exit` and `child_exit`
are called. Invariant: only the `run` of gunicorn's and uvicorn's classes is replaced. A class with
its own `run` is not started: the probe serves the application without it.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from gunicorn import util

from pasture.log_lines import PREFIX
from pasture.probe import cause
from pasture.servers.gunicorn import asgi, cooperative
from pasture.servers.gunicorn.worker_class import is_known_module
from pasture.serving.proving import PROBE, loop_factory

if TYPE_CHECKING:
    from pasture.probe.replay import Call, Replay

_THREADS = ("gunicorn.workers.gthread",)
_OWN_EXITS = ("gunicorn.", *asgi.OF_UVICORN)
"""Modules of classes whose `handle_exit` ends nothing that outlives the process."""


def play(server: Any, worker: Any, replay: Replay) -> None:
    """Start the worker that is about to be forked, and serve the replay's requests in it.

    The worker is not started yet; this process has a copy of its own. The arbiter is for hooks.
    """
    util._setproctitle("probe")
    if not has_known_loop(type(worker)):
        replay.serve()
        return
    worker.pid = os.getpid()
    worker.run = lambda: _run(worker, replay)
    replay.at_end = lambda: server.cfg.worker_exit(server, worker)
    server.cfg.post_fork(server, worker)
    worker.init_process()


def reaped(server: Any, worker: Any, pid: int) -> None:
    """Call the user's `child_exit` for a probe that has ended, as for a worker."""
    if not has_known_loop(type(worker)):
        return
    before, worker.pid = worker.pid, pid
    try:
        server.cfg.child_exit(server, worker)
    except Exception:
        server.log.exception(PREFIX + PROBE, "child_exit")
    finally:
        worker.pid = before


def has_known_loop(worker_class: type) -> bool:
    """Whether the `run` of a class of workers is gunicorn's or uvicorn's own."""
    having = next(base for base in worker_class.__mro__ if "run" in vars(base))
    return is_known_module(having.__module__)


def _run(worker: Any, replay: Replay) -> None:
    try:
        _serve(worker, replay)
    finally:
        if not type(worker).handle_exit.__module__.startswith(_OWN_EXITS):
            worker.handle_exit(signal.SIGTERM, None)  # as at SIGTERM


def _serve(worker: Any, replay: Replay) -> None:
    kind = type(worker)
    if asgi.is_of(kind, asgi.OF_UVICORN):
        config = worker.config
        config.app = worker.wsgi
        config.load()
        lifespan = config.lifespan != "off"
        replay.asgi(config.loaded_app, loop_factory(config), lifespan=lifespan)
    elif asgi.is_of(kind, asgi.OF_GUNICORN):
        lifespan = getattr(worker.cfg, "asgi_lifespan", "auto") != "off"
        worker.loop.close()
        make: Any = type(worker.loop)
        replay.asgi(worker.asgi, make, lifespan=lifespan)
    elif asgi.is_of(kind, _THREADS):
        replay.wsgi(worker.wsgi, lambda call: int(worker.tpool.submit(call).result()))
    elif asgi.is_of(kind, cooperative.OF_GEVENT):
        import gevent

        def in_greenlet(call: Call) -> int:
            greenlet = gevent.spawn(call)
            replay.places = lambda: cause.of_frame(greenlet.gr_frame)
            return int(greenlet.get())

        replay.wsgi(worker.wsgi, in_greenlet)
    else:
        replay.wsgi(worker.wsgi)
