"""A worker of gunicorn's in a probe: started as any, up to where it would serve connections.

Owns where each class of workers serves a request: in its thread, a pool of threads, a greenlet, an
event loop. The user's `post_fork`, `post_worker_init` and `worker_exit` are called.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gunicorn import util

from pasture.servers.gunicorn import asgi
from pasture.servers.proving import loop_factory

if TYPE_CHECKING:
    from pasture.probe.replay import Replay

_GEVENT = ("gunicorn.workers.ggevent",)
_THREADS = ("gunicorn.workers.gthread",)


def play(server: Any, worker: Any, replay: Replay) -> None:
    """Start the worker that is about to be forked, and serve the replay's requests in it.

    The worker is not started yet; this process has a copy of its own. The arbiter is for hooks.
    """
    worker.pid = os.getpid()
    util._setproctitle("probe")
    worker.run = lambda: _serve(worker, replay)  # in place of its loop
    replay.at_end = lambda: worker.cfg.worker_exit(server, worker)
    worker.cfg.post_fork(server, worker)
    worker.init_process()


def _serve(worker: Any, replay: Replay) -> None:
    kind = type(worker)
    if asgi.is_of(kind, asgi.OF_UVICORN):
        _serve_uvicorn(worker, replay)
    elif asgi.is_of(kind, asgi.OF_GUNICORN):
        lifespan = getattr(worker.cfg, "asgi_lifespan", "auto") != "off"
        worker.loop.close()
        make: Any = type(worker.loop)
        replay.asgi(worker.asgi, make, lifespan=lifespan)
    elif asgi.is_of(kind, _THREADS):
        replay.wsgi(worker.wsgi, replay.in_thread_of(worker.tpool.submit))
    elif asgi.is_of(kind, _GEVENT):
        import gevent

        replay.wsgi(worker.wsgi, replay.in_greenlet_of(gevent.spawn))
    else:
        replay.wsgi(worker.wsgi)


def _serve_uvicorn(worker: Any, replay: Replay) -> None:
    config = worker.config
    config.app = worker.wsgi
    config.load()
    replay.asgi(config.loaded_app, loop_factory(config), lifespan=config.lifespan != "off")
