"""Builds a profile's entries in the parent, before the seal.

Modules first, in their order, then all else but requests, which the warm-up serves. Each entry is a
step of the warm-up's guard, and what would have an effect beyond this process is refused by its
name. An entry that is no longer there costs nothing but a line.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Any
from uuid import UUID

from pasture.log_lines import first_of
from pasture.own_values import generators
from pasture.own_values.identity import Identity
from pasture.proc.own_memory import read_own_memory
from pasture.profile import effects
from pasture.profile.file import Profile, pattern_of
from pasture.warmup.guard import STEP_S, TOTAL_S, Guard, Outcome, describe

Run = Callable[[str, Callable[[], object]], Outcome[object]]

MAX_PROBLEMS = 10
"""Of the lines that a start writes about entries."""


@dataclass(frozen=True, slots=True)
class Built:
    """The outcome of an entry."""

    entry: str  # kind and value
    seconds: float
    own_bytes: int  # by which this process's own memory grew
    problem: str | None = None  # why it was not built; None if it was


class Gone(Exception):
    """The entry is no longer there."""


class Own(Exception):
    """Each process makes for itself what the entry makes."""


_MAX_COUNT = 1 << 31
_SCALARS = frozenset((str, bytes, int, float, tuple, UUID, datetime))
_PREFIX = re.compile(rf"({Gone.__name__}|{Own.__name__}): ")


class Meter:
    """Growth of this process's own memory, from one call to the next."""

    def __init__(self) -> None:
        self._last = 0
        self.grown()

    def grown(self) -> int:
        before = self._last
        with suppress(OSError, ValueError):
            self._last = read_own_memory().heap_bytes
        return self._last - before


def build(
    profile: Profile, *, step_s: float = STEP_S, total_s: float = TOTAL_S
) -> tuple[Built, ...]:
    """Build all entries but requests and connections.

    Raises:
        KeyboardInterrupt: the process was asked to end.
    """
    with Guard(step_s=step_s, total_s=total_s) as guard:
        return _build(profile, guard.run, lambda: guard.is_over)


def build_in_image(profile: Profile) -> tuple[Built, ...]:
    """The same in a process that is made an image of: without limits, and nothing is put back.

    A guard would read all variables, and so bind the image to their values.
    """
    return _build(profile, _run, lambda: False)


def _build(profile: Profile, run: Run, is_over: Callable[[], bool]) -> tuple[Built, ...]:
    done: list[Built] = []
    entries = [
        (kind, value)
        for kind in _BUILDERS
        for value in profile.of(kind)
        if not value.endswith("(...)")  # by which arguments is not known
    ]
    meter = Meter()
    identity = Identity.now(generators.drawn())
    try:
        for kind, value in entries:
            entry = f"{kind} {value}"
            if is_over():
                done.append(Built(entry, 0.0, 0, "left out: the time is over"))
                continue
            with effects.refused() as found:
                outcome = run(entry, partial(_BUILDERS[kind], value, identity))
            error = outcome.error and _PREFIX.sub("", outcome.error)
            problem = f"refused: it makes {found[0]}" if found else error
            if outcome.changed and problem is None:
                problem = f"it changed {', '.join(outcome.changed)}: put back"
            done.append(Built(entry, outcome.seconds, meter.grown(), problem))
    finally:
        effects.forget()
    return tuple(done)


def _run(_name: str, function: Callable[[], object]) -> Outcome[object]:
    began_s, error = perf_counter(), None
    try:
        function()
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        error = describe(raised)
    return Outcome(None, error, (), perf_counter() - began_s)


def summary_of(built: tuple[Built, ...]) -> str:
    """How many entries were built, in which time and memory."""
    done, seconds = sum(not one.problem for one in built), sum(one.seconds for one in built)
    own_mb = sum(one.own_bytes for one in built) / 1e6
    return f"built {done} of {len(built)} entries in {seconds:.1f} s, {own_mb:.1f} MB"


def problems_of(built: tuple[Built, ...]) -> tuple[str, ...]:
    """Sentences about entries that were not built: some of them, and the number of the rest."""
    found = [f"{one.entry}: {one.problem}" for one in built if one.problem]
    return tuple(first_of(found, MAX_PROBLEMS, "entries were not built"))


def resolve(name: str) -> Any:
    """The object at `MODULE:NAME`, of a module that has been imported; raises where there is none.

    Attributes that a class or a module makes on demand count as missing: nothing runs.
    """
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    if found is None:
        raise Gone("its module was not imported")
    for part in path.split("."):
        held = contents_of(found)
        if part not in held:
            raise Gone("it is no longer there")
        found = held[part]
    return found


def contents_of(thing: Any) -> Mapping[str, Any]:
    """The dictionary of an object; empty without one. A module that loads itself at the first use
    of an attribute is not loaded by this."""
    try:
        held = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return held if isinstance(held, (dict, MappingProxyType)) else {}


def scalars_of(module: str) -> list[Any]:
    """Values of a module that may say which process has imported it.

    Numbers that count something, or are a constant, differ or are alike for other reasons.
    """
    own = (os.getpid(), os.getppid())
    return [
        value
        for key, value in list(contents_of(sys.modules.get(module)).items())
        if type(value) in _SCALARS and not key.startswith("__")
        if type(value) is not int or value in own or value > _MAX_COUNT
    ]


def _import(name: str, identity: Identity) -> None:
    is_there = name in sys.modules
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise Gone("it is no longer there") from None
        raise
    own = None if is_there else identity.found_in(scalars_of(name))
    if own is not None:
        raise Own(f"it holds {own}: all workers have the parent's")


def _fill(name: str, identity: Identity) -> None:
    cached = resolve(name)
    if not isinstance(cached, functools._lru_cache_wrapper):
        raise Gone("it is no longer a cache")
    if cached.cache_info().currsize:
        return
    states = generators.states()
    own = identity.found_in(cached())
    if own is None and generators.states() != states:
        own = "a random number"
    if own is not None:
        cached.cache_clear()
        raise Own(f"it holds {own}: each worker makes it for itself")


def _compile(value: str, _: Identity) -> None:
    pattern, flags = pattern_of(value)
    re.compile(pattern, flags)


def _load_template(value: str, _: Identity) -> None:
    engine, place, name = value.split(" ", 2)
    if engine == "django":
        if "django.template" not in sys.modules:
            raise Gone("Django was not imported")
        sys.modules["django.template"].engines[place].get_template(name)
    else:
        resolve(place).get_template(name)


_BUILDERS: Mapping[str, Callable[[str, Identity], object]] = {
    "module": _import,
    "template": _load_template,
    "cache": _fill,
    "pattern": _compile,
}
"""In the order in which kinds are built."""
