"""Datadog's tracer, stopped while the heap is sealed.

ddtrace stops its runtime and its threads before each fork, and starts them again on both sides.
What they free then would be holes in the sealed heap, which each worker fills again. So they are
stopped for the seal, too, by the functions that ddtrace itself calls at a fork, and what they have
freed is plugged. Not inside of a fork, where they are stopped already and must stay so.

Source: ddtrace 4.16, internal/forksafe.py and internal/native_runtime.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopped() -> Iterator[None]:
    """Stop it meanwhile. Nothing is done where its runtime does not run, or is not known here."""
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
    """The one that there is; none is made."""
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
    except BaseException:  # a panic of its native code is no Exception
        return  # a fork would go on in spite of it, too
