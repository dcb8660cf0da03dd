"""The protocol by which an application is called: WSGI, ASGI, or an unknown one.

A server knows the protocol of its workers; without a server the application's parameters decide.
Invariant: calls no code of the application. An object that does not fit a protocol, such as an
application factory, is refused with a reason, and never called.
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
    """The protocol of an application: ASGI's are coroutine functions."""
    return Protocol.ASGI if _is_coroutine_function(application) else Protocol.WSGI


def refusal(application: Any, protocol: Protocol) -> str | None:
    """Why an object is not an application of a protocol; None if it may be one.

    An object that does not show its parameters, as in C code, may be one.
    """
    if not callable(application):
        return f"{_name(application)} cannot be called"
    if protocol is Protocol.WSGI and _is_coroutine_function(application):
        return f"{_name(application)} is a coroutine function, not a WSGI application"
    parameters = _PARAMETERS[protocol]
    # Not the wrapped function's: werkzeug's `Request.application` makes a WSGI application of a
    # view.
    try:
        signature = inspect.signature(application, follow_wrapped=False)
    except Exception:  # also from the application's code, as in a proxy
        return None
    try:
        signature.bind(*(None,) * len(parameters))
    except TypeError:
        takes = ", ".join(parameters)
        return f"{_name(application)} does not take ({takes}) as {protocol} applications do"
    return None


def _is_coroutine_function(application: Any) -> bool:
    return inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(
        getattr(application, "__call__", None)  # noqa: B004
    )


def _name(application: Any) -> str:
    kind = type(application)
    name = getattr(application, "__qualname__", None) or f"an object of {kind.__qualname__}"
    return f"{name} of {getattr(application, '__module__', None) or kind.__module__}"
