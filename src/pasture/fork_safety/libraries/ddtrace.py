"""Datadog's tracer: it copes with a fork by itself, and is stopped while the heap is sealed.

ddtrace stops its runtime and threads before each fork, and starts them again on both sides. What
they free then would be holes in the sealed heap. So they are stopped for the seal, too, by the
functions that ddtrace itself calls at a fork; not inside of a fork, where they are stopped already.

Source: ddtrace 4.16, internal/forksafe.py and internal/native_runtime.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from pasture.fork_safety.library import Library


@contextmanager
def stopped() -> Iterator[None]:
    """Stop ddtrace in the `with` block, if its runtime runs and is known."""
    hooks, runtime = sys.modules.get("ddtrace.internal.forksafe"), _runtime()
    stop = _functions((hooks, "ddtrace_before_fork"), (runtime, "before_fork"))
    start = _functions((runtime, "after_fork_parent"), (hooks, "ddtrace_after_in_parent"))
    if len(stop + start) < 4:
        yield
        return
    try:
        for function in stop:
            _call(function)
        yield
    finally:
        for function in start:
            _call(function)


def _runtime() -> Any:
    module = sys.modules.get("ddtrace.internal.native_runtime")
    get: Any = getattr(module, "get_native_runtime", None)
    return get() if hasattr(get, "cache_info") and get.cache_info().currsize else None


def _functions(*names: tuple[Any, str]) -> list[Callable[[], object]]:
    found = (getattr(owner, name, None) for owner, name in names)
    return [one for one in found if callable(one)]


def _call(function: Callable[[], object]) -> None:
    try:
        function()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of its native code is not an Exception
        return  # a fork goes on after such an error, too


def _restarted_now() -> Collection[int]:
    """ddtrace's native threads, which `threading` knows as Dummy-1 and the like."""
    known: Collection[int] = getattr(
        sys.modules.get("ddtrace.internal._threads"), "periodic_threads", ()
    )
    return known


def _address_of_agent() -> str:
    """The end of the address of Datadog's agent; "" without one."""
    if "ddtrace.internal.native_runtime" not in sys.modules:
        return ""
    settings = getattr(sys.modules.get("ddtrace.internal.settings._agent"), "config", None)
    url = str(getattr(settings, "trace_agent_url", "")).rstrip("/")
    if url.startswith("unix://"):
        return url.removeprefix("unix://")
    port = url.rpartition(":")[2]
    return f":{port}" if port.isdigit() else ""


CARD = Library(
    package="ddtrace",
    restarted=("ddtrace",),
    restarts_all=True,
    restarted_now=_restarted_now,
    known_elsewhere=True,
    closed_at_fork=_address_of_agent,
    while_sealing=stopped,
)
