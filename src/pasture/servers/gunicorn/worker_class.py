"""How a class of gunicorn's workers calls the application, which gunicorn itself only loads.

The same object may be an application for one class and a factory for another. Owns the protocol of
each class. Invariant: an unknown class has no protocol.
"""

from __future__ import annotations

from typing import Any

from pasture.servers.gunicorn.asgi import OF_GUNICORN, OF_UVICORN, is_of
from pasture.warmup import protocol as protocols
from pasture.warmup.protocol import Protocol

_OF_WSGI = (
    "gunicorn.workers.sync",
    "gunicorn.workers.gthread",
    "gunicorn.workers.base_async",
    "gunicorn.workers.ggevent",
    "gunicorn.workers.geventlet",
    "gunicorn.workers.gtornado",  # it calls tornado's own applications in another way
)


def is_known_module(name: str) -> bool:
    """Whether the classes of a module are known here."""
    return name in (*_OF_WSGI, *OF_GUNICORN, *OF_UVICORN)


def protocol_of(worker_class: type, application: Any) -> Protocol | str:
    """The protocol by which workers of a class call an application, or why it is unknown."""
    if is_of(worker_class, OF_UVICORN):
        return _by_uvicorn(getattr(worker_class, "CONFIG_KWARGS", {}), application)
    if is_of(worker_class, OF_GUNICORN):
        return Protocol.ASGI
    if is_of(worker_class, _OF_WSGI):
        return Protocol.WSGI
    name = f"{worker_class.__module__}.{worker_class.__qualname__}"
    return f"left out: how workers of the class {name} call the application is unknown"


def _by_uvicorn(options: Any, application: Any) -> Protocol | str:
    """The protocol that uvicorn's `Config` finds with the options of the class."""
    if options.get("factory"):
        return "left out: each worker calls the factory of its application for itself"
    interface = options.get("interface", "auto")
    if interface == "auto":
        is_new = protocols.find(application) is Protocol.ASGI
        interface = "asgi3" if is_new else "asgi2"
    if interface == "asgi2":
        return "left out: the application is ASGI 2 to uvicorn, which pasture does not serve"
    return Protocol.WSGI if interface == "wsgi" else Protocol.ASGI
