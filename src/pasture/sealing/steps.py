"""The steps on the heap, each a function without arguments that returns what it counted.

No order and no policy here. `NotImplementedError` means that this interpreter or allocator
has no such step, with the reason as its text; the heap is then as it was before.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping

from pasture.errors import UnsupportedInterpreter
from pasture.sealing.interpreter import native
from pasture.sealing.policy import HeapStep

Counts = Mapping[str, int]


def _collect() -> Counts:
    try:
        # Out of line: the same garbage in a third of the time.
        return {"unreachable": native().collect(False)}
    except (UnsupportedInterpreter, RuntimeError, MemoryError):
        return {"unreachable": gc.collect()}


def _precompute_types() -> Counts:
    return {"types": native().precompute_types()}


def _trace_code() -> Counts:
    native().forget_code_runs()
    native().keep_code_runs(True)
    return {}


def _gather_code() -> Counts:
    counts: Counts = native().gather_code()
    return counts


def _immortalize() -> Counts:
    counts: Counts = native().immortalize()
    return counts


def _plug_malloc() -> Counts:
    counts: Counts = native().plug_malloc()
    return counts


def _plug_pymalloc() -> Counts:
    counts: Counts = native().plug_pymalloc()
    return counts


def _empty_free_lists() -> Counts:
    # What the steps before let go of lies in the interpreter's free lists, between objects
    # that are sealed: a child would be handed it. A full collection empties them, and after
    # the freeze it looks at next to nothing.
    return {"unreachable": gc.collect()}


def _freeze() -> Counts:
    # No count: gc.get_freeze_count() walks the whole list.
    gc.freeze()
    return {}


HEAP_STEPS: Mapping[HeapStep, Callable[[], Counts]] = {
    "collect": _collect,
    "precompute-types": _precompute_types,
    "trace-code": _trace_code,
    "gather-code": _gather_code,
    "immortalize": _immortalize,
    "freeze": _freeze,
    "empty-free-lists": _empty_free_lists,
    "plug-malloc": _plug_malloc,
    "plug-pymalloc": _plug_pymalloc,
}
"""Each must run in the process that forks, with no other Python thread running: those of
the extension read and write structures that any other thread may be changing."""
