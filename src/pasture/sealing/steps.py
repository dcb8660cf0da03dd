"""The table of the heap's steps: a row for each, with its function and its needs.

The rows are in the order in which the policy seal takes them. `NotImplementedError` means that this
interpreter or allocator lacks the step, with the reason as its text; the heap is then unchanged.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from pasture.errors import UnsupportedInterpreter
from pasture.interpreter import FIRST_IMMORTAL, left_out, native
from pasture.sealing import containers, dead, memory_types
from pasture.sealing.headroom import Peak
from pasture.sealing.memory_types import TypeCount

Counts = Mapping[str, int]

PLUG_AFTER_OBJECTS = 1_000
"""Number of objects sealed since the last plugging that makes another one worth while."""


class StepResult(NamedTuple):
    """Counts of a step, and results that are not counts."""

    counts: Counts
    note: str | None = None
    problems: tuple[str, ...] = ()
    mortal_types: tuple[TypeCount, ...] = ()
    dead_types: tuple[TypeCount, ...] = ()


class Lack(NamedTuple):
    """An interpreter that is too old for a step, in words."""

    first: tuple[int, int]  # the version of CPython from which on the step exists
    what: str  # the end of a sentence about an older version
    cost: str  # the cost of the lack, in words


class HeapStep(NamedTuple):
    """One step, in the process that forks. It holds the interpreter's lock from start to end."""

    # Takes the step; returns its counts by name, or a `StepResult`.
    work: Callable[[], Counts | StepResult]
    is_native: bool = False  # changes the interpreter's memory through the extension
    # Safe while any thread runs: it does only what the interpreter may do at any time. Unsafe steps
    # need threads that are proved to wait.
    beside_running: bool = False
    # Safe and worth while on a half-sealed heap. Plugging is neither: it allocates, and what failed
    # most likely failed without memory.
    after_failure: bool = False
    peak: Peak | None = None  # memory that it may need for a moment; None if that is little
    # Replaces the step where that memory is missing.
    in_little_memory: Callable[[], Counts] | None = None
    # Its count `objects` is the number of objects that are never freed from then on.
    makes_immortal: bool = False
    holds_plugs: bool = False  # its count `bytes` is memory that it keeps in use for good
    part: str = ""  # the part of the extension that it needs, as `private_fields` names it
    lack: Lack | None = None  # set if some supported versions lack the step


def _collect() -> Counts:
    try:
        # Out of line: the same garbage in a third of the time.
        return {"unreachable": native().collect(False)}
    except (UnsupportedInterpreter, RuntimeError, MemoryError):
        return {"unreachable": gc.collect()}


def _collect_built_in() -> Counts:
    return {"unreachable": gc.collect()}


def _trace_code() -> Counts:
    native().forget_code_runs()
    native().keep_code_runs(True)
    return {}


_OWNERS_LEFT_OUT = (
    "objects that own open files or sockets stay private; 3 levels of their owners, too"
)


def _immortalize() -> StepResult:
    lost, dead_types, problems = dead.look()
    containers.hand_to_extension()
    counts = native().immortalize()
    _holes.sealed += counts["objects"]
    _holes.counted = True
    types = memory_types.with_many_objects(counts.pop("mortal_types"))
    notes = [_OWNERS_LEFT_OUT] if counts["owners_left_out"] else []
    notes += [memory_types.note_of(types)] if types else []
    note = "; ".join(notes) or None
    return StepResult({**counts, **lost}, note, problems, types, dead_types)


def _freeze() -> Counts:
    # No count: gc.get_freeze_count() walks the whole list.
    gc.freeze()
    with suppress(UnsupportedInterpreter):
        native().unfreeze_mortal()
    return {}


_STAYED_OPEN = StepResult({"blocks": 0, "bytes": 0}, "little is new since holes were plugged")


@dataclass(slots=True)
class _Holes:
    """The number of objects sealed since this process plugged holes.

    The work of a seal leaves holes itself. A process that seals each second, and has nothing new
    each time, would grow by 15 GB a day if it plugged them. Holes that stay open are what the next
    seal works with; they lie between few sealed objects.
    """

    sealed: int = 0  # objects since the holes were plugged
    # Whether that is known: objects are made immortal, and counted, from 3.12 on.
    counted: bool = False
    plugged_by: int = 0  # the process; its children have holes of their own

    def stay_open(self) -> bool:
        here = self.plugged_by == os.getpid()
        return here and self.counted and self.sealed < PLUG_AFTER_OBJECTS


_holes = _Holes()


def _plug_malloc() -> StepResult:
    if _holes.stay_open():
        return _STAYED_OPEN
    plugged = native().plug_malloc()
    counts = {"blocks": plugged["blocks"], "bytes": plugged["bytes"]}
    return StepResult(counts, f"{plugged['allocator']}: {plugged['means']}")


def _plug_pymalloc() -> Counts | StepResult:
    if _holes.stay_open():
        return _STAYED_OPEN
    counts: Counts = native().plug_pymalloc()
    _holes.sealed, _holes.counted, _holes.plugged_by = 0, False, os.getpid()  # after malloc's
    return counts


HEAP_STEPS: Mapping[str, HeapStep] = {
    "collect": HeapStep(
        _collect, beside_running=True, peak=Peak(0.04), in_little_memory=_collect_built_in
    ),
    "precompute-types": HeapStep(
        lambda: {"types": native().precompute_types()}, is_native=True, beside_running=True
    ),
    # Prepares "gather-code" in a child that becomes a parent itself.
    "trace-code": HeapStep(_trace_code, is_native=True, beside_running=True),
    "gather-code": HeapStep(
        lambda: native().gather_code(), is_native=True, peak=Peak(0.01), part="gathered code"
    ),
    "immortalize": HeapStep(
        _immortalize,
        is_native=True,
        peak=Peak(0.02),
        makes_immortal=True,
        part="immortal objects",
        lack=Lack(
            FIRST_IMMORTAL,
            "has no immortal objects",
            "reading an object writes its reference count: what a worker reads it copies",
        ),
    ),
    "freeze": HeapStep(_freeze, beside_running=True, after_failure=True),
    # Memory that earlier steps freed lies in the interpreter's free lists, between sealed objects:
    # children would use it. A full collection empties the lists, and after the freeze it is cheap.
    "empty-free-lists": HeapStep(_collect_built_in, beside_running=True),
    # Wholly free memory would be copied through the fork.
    "give-back": HeapStep(lambda: {"bytes": native().trim()}, is_native=True),
    "plug-malloc": HeapStep(_plug_malloc, is_native=True, peak=Peak(0.01), holds_plugs=True),
    "plug-pymalloc": HeapStep(
        _plug_pymalloc, is_native=True, peak=Peak(0.01), holds_plugs=True, part="plugging of pools"
    ),
}
"""All steps, by their names in policies."""

NATIVE_STEPS = frozenset(name for name, step in HEAP_STEPS.items() if step.is_native)
_PARTS = frozenset(step.part for step in HEAP_STEPS.values())


def left_out_besides() -> tuple[str, ...]:
    """Parts of pasture besides steps that do not work on this interpreter, a sentence each."""
    return tuple(f"no {part}: {why}" for part, why in left_out() if part not in _PARTS)
