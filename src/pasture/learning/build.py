"""Builds entries in a process: in the parent before the seal, and before that in a trial's copies.

Each entry is a step of the warm-up's guard, and an effect beyond this process is refused. Errors
are reported in pasture's words, since they go into the file: a type, never an exception's text.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from pasture.learning import effects
from pasture.learning.file import pattern_of
from pasture.learning.found import contents_of
from pasture.warmup.guard import STEP_S, Guard

TOTAL_S = 60.0
"""Limit of all entries together."""

GONE = "is no longer there"
_TYPE = re.compile(r"(\w+)(?:: |$)")


class Gone(Exception):
    """The entry is no longer there."""


def build(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Build entries while there is time; yields each line with its error or ""."""
    try:
        with Guard(step_s=STEP_S, total_s=TOTAL_S) as guard:
            for line in lines:
                if guard.is_over:
                    return
                kind, _, value = line.partition(" ")
                with effects.refused() as found:
                    outcome = guard.run(line, partial(_BUILDERS[kind], value))
                problem = ""
                if found:
                    problem = f"makes {found[0]}"
                elif outcome.error:
                    raised = _TYPE.match(outcome.error)
                    problem = "takes too long" if raised is None else f"raises {raised[1]}"
                elif outcome.changed:
                    problem = f"changes {outcome.changed[0]}"
                yield line, GONE if problem == f"raises {Gone.__name__}" else problem
    finally:
        effects.forget()


def resolve(name: str) -> Any:
    """The object at `MODULE:NAME`, of a module that has been imported; raises without one.

    Runs no code: attributes that a class or a module makes on demand count as missing.
    """
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        held = contents_of(found)
        if part not in held:
            raise Gone
        found = held[part]
    return found


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise Gone from None
        raise


def _load_template(value: str) -> None:
    engine, place, name = value.split(" ", 2)
    if engine == "jinja":
        resolve(place).get_template(name)
    elif "django.template" in sys.modules:
        sys.modules["django.template"].engines[place].get_template(name)
    else:
        raise Gone


_BUILDERS: Mapping[str, Callable[[str], object]] = {
    "module": _import,
    "template": _load_template,
    "pattern": lambda value: re.compile(*pattern_of(value)),
}
