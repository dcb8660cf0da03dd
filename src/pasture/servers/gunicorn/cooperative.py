"""Workers of gevent and eventlet: the library's patches come before the application.

Such a worker patches the standard library and then loads the application. So a parent that loads it
has to patch first. Invariant: the application's code runs with the patched functions; the parent's
other code waits, forks and takes signals with the original ones. Written for the workers of
gunicorn 23 to 27, gevent 24.10 to 26.9 and eventlet 0.40.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from pasture.fork_safety.libraries.gevent import gevent_has_patched
from pasture.servers.gunicorn.asgi import is_of

OF_GEVENT = ("gunicorn.workers.ggevent",)
OF_EVENTLET = ("gunicorn.workers.geventlet",)

_WAITING = ("os", "queue", "select", "signal", "socket", "time")
"""Modules whose original functions a parent uses; those of threads cannot be restored."""

Patched = list[tuple[Any, str, Any]]
AsInWorker = Callable[..., AbstractContextManager[object]]
"""Makes a context; given False, forks and signals stay the original ones in it."""


def is_cooperative(worker_class: type) -> bool:
    """Whether workers of this class patch the standard library."""
    return is_of(worker_class, OF_GEVENT + OF_EVENTLET)


def patch_as(worker_class: type) -> AsInWorker:
    """Patch this process as workers of a class do, once. Before the application is imported.

    Returns a function that makes a context in which the application's code runs as in a worker.
    """
    if is_of(worker_class, OF_GEVENT) and not gevent_has_patched():
        importlib.import_module("gevent.monkey").patch_all()
        now, before = replaced_by_gevent(_WAITING)
        # Each child renews a hub that the application's code has started.
        fork = importlib.import_module("gevent.os").fork_gevent
        return _between((now, [*before, (os, "fork", fork)]))
    if is_of(worker_class, OF_EVENTLET):
        patcher = importlib.import_module("eventlet.patcher")
        if not any(map(patcher.is_monkey_patched, ("socket", "thread", "time"))):
            return _between(_replaced_by_eventlet(patcher))
    return nullcontext


def replaced_by_gevent(names: tuple[str, ...]) -> tuple[Patched, Patched]:
    """Attributes that gevent has set in these modules, and the original ones."""
    saved: Any = vars(sys.modules["gevent.monkey"])["saved"]
    now, before = [], []
    for module in (sys.modules[name] for name in names if name in sys.modules):
        for name, original in saved.get(module.__name__, {}).items():
            now.append((module, name, getattr(module, name, None)))
            before.append((module, name, original))
    return now, before


def _replaced_by_eventlet(patcher: Any) -> tuple[Patched, Patched]:
    modules = [sys.modules[name] for name in _WAITING if name in sys.modules]
    were = [(module, dict(vars(module))) for module in modules]
    patcher.monkey_patch()
    now, before = [], []
    for module, names in were:
        for name, value in names.items():
            replaced = vars(module).get(name)
            if replaced is not value:
                now.append((module, name, replaced))
                before.append((module, name, value))
    return now, before


def _between(found: tuple[Patched, Patched]) -> AsInWorker:
    now, before = found
    waiting = [one for one in now if one[0].__name__ not in ("os", "signal")]

    @contextmanager
    def as_in_worker(forks: bool = True) -> Iterator[None]:
        put(now if forks else waiting)
        try:
            yield
        finally:
            put(before)

    # Greenlets of the application's import go on in each child, right from the fork. Forks and
    # signals there stay the original ones until the worker patches.
    os.register_at_fork(after_in_child=lambda: put(waiting))
    where: Any = threading
    shutdown = where._shutdown

    def put_and_shutdown() -> None:  # greenlets run there once more
        put(now)
        shutdown()

    where._shutdown = put_and_shutdown
    put(before)
    return as_in_worker


def put(values: Patched) -> None:
    """Give modules these attributes."""
    for module, name, value in values:
        setattr(module, name, value)
