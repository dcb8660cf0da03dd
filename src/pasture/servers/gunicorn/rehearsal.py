"""A worker of gunicorn's in a probe: started as any, up to where it would serve connections.

Owns where each class of workers serves a request: in its thread, a pool of threads, a greenlet, an
event loop. The user's `post_fork`, `post_worker_init`, `worker_exit` and `child_exit` are called.
Invariant: what a class starts around gunicorn's own loop is started only where it is ended, too:
the loop alone is replaced, and a class's `run` goes on behind it.
"""

from __future__ import annotations

import dis
import inspect
import os
import signal
from types import FunctionType
from typing import TYPE_CHECKING, Any

from gunicorn import util

from pasture.log_lines import PREFIX, PROBE
from pasture.servers.gunicorn import asgi
from pasture.servers.gunicorn.worker_class import is_known_module

if TYPE_CHECKING:
    from pasture.probe.replay import Replay

_GEVENT = ("gunicorn.workers.ggevent",)
_THREADS = ("gunicorn.workers.gthread",)
_ALONE = "run() of the class %s does not go on in gunicorn's: the application is served alone"

_OWN_EXITS = ("gunicorn.", *asgi.OF_UVICORN)
"""Modules of classes at whose `handle_exit` nothing is ended that outlives the process."""


def play(server: Any, worker: Any, replay: Replay) -> None:
    """Start the worker that is about to be forked, and serve the replay's requests in it.

    The worker is not started yet; this process has a copy of its own. The arbiter is for hooks.
    """
    kind = type(worker)
    loops = loops_of(kind)
    worker.pid = os.getpid()
    util._setproctitle("probe")
    if not loops:
        name = f"{kind.__module__}.{kind.__qualname__}"
        worker.log.info(PREFIX + PROBE, _ALONE % name)
        replay.serve()
        return
    for loop in loops:
        loop.run = lambda worker: _run(worker, replay)
    replay.at_end = lambda: server.cfg.worker_exit(server, worker)
    server.cfg.post_fork(server, worker)
    worker.init_process()


def reaped(server: Any, worker: Any, pid: int) -> None:
    """Call the user's `child_exit` for a probe that has ended, as for a worker."""
    if not loops_of(type(worker)):
        return
    before, worker.pid = worker.pid, pid
    try:
        server.cfg.child_exit(server, worker)
    except Exception:
        server.log.exception(PREFIX + PROBE, "child_exit")
    finally:
        worker.pid = before


def loops_of(worker_class: type) -> tuple[Any, ...]:
    """The classes, of those that a class of workers derives from, whose `run` is a loop.

    Empty where a `run` of another class calls none of them, so that nothing could take its place.
    """
    names = {base.__name__ for base in worker_class.__mro__}
    having = [base for base in worker_class.__mro__ if "run" in vars(base)]
    loops = [base for base in having if is_known_module(base.__module__)]
    before = having[: having.index(loops[0])] if loops else having
    if not all(_goes_on(vars(base)["run"], names) for base in before):
        return ()
    return tuple(loops)


def _goes_on(run: Any, names: set[str]) -> bool:
    """Whether a `run` has `super().run()` in it, or calls that of a class by its name."""
    function = inspect.unwrap(run)
    if not isinstance(function, FunctionType):
        return False
    latest = ""
    for instruction in dis.get_instructions(function):
        if instruction.opname in _LOADS_ATTRIBUTE:
            if instruction.argval == "run" and latest in {"super", "__class__", *names}:
                return True
            latest = instruction.argval
        elif instruction.opname in _LOADS_NAME:
            latest = instruction.argval
    return False


_LOADS_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD")
_LOADS_NAME = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")
"""Instructions of CPython 3.11 to 3.15."""


def _run(worker: Any, replay: Replay) -> None:
    try:
        _serve(worker, replay)
    finally:
        if not type(worker).handle_exit.__module__.startswith(_OWN_EXITS):
            worker.handle_exit(signal.SIGTERM, None)  # as when it is asked to end


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
    from pasture.serving.proving import loop_factory  # what probes has imported it

    config = worker.config
    config.app = worker.wsgi
    config.load()
    replay.asgi(config.loaded_app, loop_factory(config), lifespan=config.lifespan != "off")
