"""A gunicorn worker of gevent's that may become a mold: the end of its hub.

The worker finishes its requests as at TERM, and its hub is destroyed with all waiting greenlets.
The mold must not switch greenlets between its forks, so it gets back the original functions that it
needs; each new worker has gevent's again before it runs other code. Written for the worker `gevent`
of gunicorn 23 to 27 and gevent 24.10 to 26.9.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent
from greenlet import greenlet

from pasture.fork_safety.closed_loop import frozen_objects_listed
from pasture.fork_safety.library import instances
from pasture.reasons import Hazard, Reason
from pasture.servers.gunicorn import cooperative
from pasture.servers.gunicorn.refork.promotion import Promotable, take_signals

_NEEDED = ("os", "select", "socket", "time")
"""Modules whose original functions a mold uses; those of threads cannot be restored."""

_MAX_NAMES = 5


class GeventPromotable(Promotable):
    """A worker whose requests are greenlets."""

    @contextmanager
    def become_mold(self) -> Iterator[None]:
        patched, original = cooperative.replaced_by_gevent(_NEEDED)
        cooperative.put(original)
        try:
            yield
        finally:
            cooperative.put(patched)

    def leave_service(self) -> None:
        take_signals(self._worker)
        for listener in self._listeners:
            # gunicorn 23 leaves the number here, too, of a file that gevent has closed.
            if listener.sock is not None:
                listener.sock.detach()
                listener.sock = None
        super().leave_service()

    def hazards(self) -> tuple[Hazard, ...]:
        """Hazards of a fork; without any the hub is destroyed."""
        found = (*(h for h in super().hazards() if h.kind is not Reason.GEVENT_HUB),)
        found += tuple(_greenlets())
        if not found:
            hub = gevent.get_hub()
            hub.destroy(destroy_loop=True)
            greenlet.throw(hub)  # its loop has ended and it waits for ever
        return found


def _greenlets() -> Iterator[Hazard]:
    """Greenlets that have started and not ended, except this one and the hub."""
    hub: Any = gevent.get_hub()
    if hub._threadpool is not None:
        hub._threadpool.kill()
    gc.collect()
    with frozen_objects_listed():
        alive = [one for one in instances((greenlet,)) if one]
        own = (gevent.getcurrent(), hub)
        others = [one for one in alive if one not in own]
        runs = [(getattr(one, "_run", None), type(one).__qualname__) for one in others]
        names = sorted({str(getattr(run, "__qualname__", kind)) for run, kind in runs})
    for name in names[:_MAX_NAMES]:
        yield Hazard(f"the greenlet {name}", "start it in each worker, and end it before a fork")
