"""The protocol by which an application is called: WSGI, ASGI, or none that is known here.

A server knows which one its workers speak; where no server has said so, the application's own
parameters decide. Invariant: nothing of the application is called. What cannot be called by a
protocol, an application factory for instance, is refused in words, and never tried.
"""

from __future__ import annotations

import inspect
from enum import StrEnum
from typing import Any


class Protocol(StrEnum):
    """How an application is called."""

    WSGI = "WSGI"  # PEP 3333
    ASGI = "ASGI"  # ASGI 3.0


_PARAMETERS = {
    Protocol.WSGI: ("environ", "start_response"),
    Protocol.ASGI: ("scope", "receive", "send"),
}


def find(application: Any) -> Protocol:
    """The protocol of what is said to be an application: ASGI's are coroutine functions."""
    return Protocol.ASGI if _is_coroutine_function(application) else Protocol.WSGI


def refusal(application: Any, protocol: Protocol) -> str | None:
    """The reason why an object is no application of a protocol; None if it may be one.

    Objects that do not show their parameters, as some of C code, may be one.
    """
    if not callable(application):
        return f"{_name(application)} cannot be called"
    if protocol is Protocol.WSGI and _is_coroutine_function(application):
        return f"{_name(application)} is a coroutine function, and no WSGI application"
    parameters = _PARAMETERS[protocol]
    # Not of what it wraps: werkzeug's `Request.application` makes a WSGI application of a view.
    try:
        signature = inspect.signature(application, follow_wrapped=False)
    except Exception:  # of code of the application's, too: a proxy, say
        return None
    try:
        signature.bind(*(None,) * len(parameters))
    except TypeError:
        takes = ", ".join(parameters)
        return f"{_name(application)} does not take ({takes}), and is no {protocol} application"
    return None


def _is_coroutine_function(application: Any) -> bool:
    return inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(
        getattr(application, "__call__", None)  # noqa: B004
    )


def _name(application: Any) -> str:
    kind = type(application)
    name = getattr(application, "__qualname__", None) or f"an object of {kind.__qualname__}"
    return f"{name} of {getattr(application, '__module__', None) or kind.__module__}"
