"""Lazy imports (PEP 810, CPython 3.15): which are made before the fork, and which at once.

A module that stays pending is imported by each worker at its first use, into memory of its own.
Where a program says which of its imports are lazy, those of the standard library are made before
the fork, unless the variable says otherwise: one of the application's own may be lazy because it
must not happen here. Where all imports are lazy, most of them are never used, and stay pending;
those that the variable names are then as they would be without it, before anything may miss them.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pasture.errors import UsageError
from pasture.warmup.guard import Guard

VARIABLE = "PASTURE_LAZY_IMPORTS"
"""Environment variable with the patterns, separated by commas."""

DEFAULT_PATTERNS = "stdlib,pasture"
"""Where not all imports are lazy; none where they are."""

STANDARD_LIBRARY = "stdlib"
"""Stands for all modules of the standard library in a list of patterns."""

_TARGET = re.compile(r"<lazy_import '(.*)'>")


@dataclass(frozen=True, slots=True)
class Pending:
    """A global name of a module that stands for an import not made yet."""

    module: ModuleType  # that has the name
    name: str  # of the global
    target: str  # dotted name of what is to be imported, as in `decimal.Decimal`


@dataclass(frozen=True, slots=True)
class Patterns:
    wanted: tuple[str, ...]  # shell patterns of dotted names; `stdlib` is the standard library
    unwanted: tuple[str, ...]  # those that are left alone all the same

    def match(self, target: str) -> bool:
        """Whether the import of that dotted name is to be made."""
        return _is_any(target, self.wanted) and not _is_any(target, self.unwanted)


def parse_patterns(text: str) -> Patterns:
    """Patterns as in `stdlib,mysite.*,!mysite.reports`, or `*`; UsageError if one is none."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not re.fullmatch(r"!?[\w.*?\[\]-]+", word):
            raise UsageError(
                f"{word!r} is not a module pattern",
                hint=f"{VARIABLE}=stdlib,mysite.*,!mysite.reports",
            )
    return Patterns(
        tuple(word for word in words if not word.startswith("!")),
        tuple(word[1:] for word in words if word.startswith("!")),
    )


def begin() -> None:
    """Have all imports from now on be lazy, but for those that the variable names, and ours.

    In the parent, before the application is imported; CPython 3.15 and newer. UsageError: the
    variable holds what is no pattern.
    """
    if sys.version_info < (3, 15):
        return
    sys.set_lazy_imports("all")
    patterns, before = _patterns_of(os.environ), sys.get_lazy_imports_filter()

    def is_lazy(importer: str, name: str, names: Iterable[str] | None) -> bool:
        targets = (name, *(f"{name}.{one}" for one in names or ()))
        if importer.partition(".")[0] == "pasture" or any(map(patterns.match, targets)):
            return False
        return before is None or bool(before(importer, name, names))

    sys.set_lazy_imports_filter(is_lazy)


def _are_all_lazy() -> bool:
    return sys.version_info >= (3, 15) and sys.get_lazy_imports() == "all"


def _patterns_of(environ: Mapping[str, str]) -> Patterns:
    return parse_patterns(environ.get(VARIABLE, "" if _are_all_lazy() else DEFAULT_PATTERNS))


def resolve(
    environ: Mapping[str, str] = os.environ,
    refusal: Callable[[], str | None] = lambda: None,
) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """Make the pending imports that the patterns name, and those that come with them.

    In the process that forks, before the seal. An import that fails stays pending: a worker
    that uses it gets the error, as without pasture.

    Args:
        refusal: asked before each import: why no more may be made, or None.

    Returns:
        Number of names `resolved` and left `pending`, and what went wrong, a line each.

    Raises:
        UsageError: the variable holds what is no pattern.
        KeyboardInterrupt: the process was asked to end.
    """
    patterns = _patterns_of(environ)
    problems: list[str] = []
    tried: set[tuple[str, str]] = set()
    resolved = 0
    with Guard() as guard:
        while chosen := [p for p in pending() if patterns.match(p.target) and _key(p) not in tried]:
            for one in chosen:
                end = "the time for all of them is over" if guard.is_over else refusal()
                if end is not None:
                    problems.append(f"lazy imports: {end}")
                    return {"resolved": resolved, "pending": len([*pending()])}, tuple(problems)
                tried.add(_key(one))
                is_made, problem = _resolve_one(guard, one)
                resolved += is_made
                problems += [problem] if problem else []
        if _are_all_lazy():
            resolved += _bind_what_is_loaded()
    return {"resolved": resolved, "pending": len([*pending()])}, tuple(problems)


def _bind_what_is_loaded() -> int:
    """Give names the modules and values that are there already, as other imports needed them.

    Each worker would do so at the first use of a name, in memory of its own. Not where a program
    says which imports are lazy: such a name may be given another value after the fork.
    """
    bound = 0
    tried: set[tuple[str, str]] = set()
    while chosen := [p for p in pending() if _is_loaded(p.target) and _key(p) not in tried]:
        for one in chosen:
            tried.add(_key(one))
            with suppress(Exception):  # a worker gets it
                ModuleType.__getattribute__(one.module, one.name)
                bound += 1
    return bound


def _is_loaded(target: str) -> bool:
    if target in sys.modules:
        return True
    package, _, name = target.rpartition(".")
    held = vars(sys.modules[package]) if package in sys.modules else {}
    return name in held and type(held[name]) is not vars(types).get("LazyImportType")


def pending() -> Iterator[Pending]:
    """Every pending import of the modules that are loaded. Makes none of them."""
    kind: type | None = vars(types).get("LazyImportType")
    if kind is None:
        return
    # multiprocessing gives __main__ a second name.
    for module in {id(one): one for one in list(sys.modules.values())}.values():
        if issubclass(type(module), ModuleType):
            for name, value in list(vars(module).items()):
                if type(value) is kind:
                    found = _TARGET.fullmatch(repr(value))
                    yield Pending(module, name, found[1] if found else name)
    yield from _pending_submodules()


def _pending_submodules() -> Iterator[Pending]:
    """After a lazy `import a.b` a use of `a` imports `a` alone: `a.b` waits for its own use."""
    for target in list(getattr(sys, "lazy_modules", ())):
        package: Any = None
        path = ""
        for name in target.split("."):
            path = f"{path}.{name}" if path else name
            if path in sys.modules:
                package = sys.modules[path]
                continue
            if hasattr(package, "__path__") and name not in vars(package):
                yield Pending(package, name, target)
            break


def _key(one: Pending) -> tuple[str, str]:
    return one.module.__name__, one.name


def _resolve_one(guard: Guard, one: Pending) -> tuple[bool, str | None]:
    threads = threading.active_count()
    outcome = guard.run(
        f"lazy import {one.target}", lambda: ModuleType.__getattribute__(one.module, one.name)
    )
    if outcome.error is not None:
        return False, f"lazy import {one.target} of {one.module.__name__}: {outcome.error}"
    if threading.active_count() > threads:
        return True, f"lazy import {one.target} started a thread: leave it out with !{one.target}"
    return True, None


def _is_any(target: str, patterns: tuple[str, ...]) -> bool:
    top = target.partition(".")[0]
    return any(
        top in sys.stdlib_module_names
        if pattern == STANDARD_LIBRARY
        else fnmatch.fnmatchcase(target, pattern) or target.startswith(f"{pattern}.")
        for pattern in patterns
    )
