"""Threads, locks and sleep of the system, also where gevent or eventlet has replaced them.

Source: gevent 26.9 gevent/monkey, `saved`; eventlet 0.40 eventlet/patcher.py, `original`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def original(module: str, name: str) -> Any:
    """An attribute of a module of the standard library, as it was before any patch."""
    saved: Any = getattr(sys.modules.get("gevent.monkey"), "saved", {})
    eventlet = sys.modules.get("eventlet.patcher")
    now = import_module(module) if eventlet is None else eventlet.original(module)
    return saved.get(module, {}).get(name) or getattr(now, name)
