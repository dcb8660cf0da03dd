"""Lazy imports (PEP 810, CPython 3.15): those of the standard library are made before the fork.

Each worker imports a module that stays pending at its first use, into its own memory. The
application's own stay pending: they may be lazy because they must not happen here. Where all
imports are lazy, most of them are never used: names are then bound to loaded modules.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from pasture.warmup.guard import Guard

_TARGET = re.compile(r"<lazy_import '(.*)'>")


@dataclass(frozen=True, slots=True)
class Pending:
    """A global name of a module that stands for an import not made yet."""

    module: ModuleType  # module with the name
    name: str  # name of the global
    target: str  # dotted name of its target, as in `decimal.Decimal`

    @property
    def key(self) -> tuple[str, str]:
        return self.module.__name__, self.name

    @property
    def is_standard(self) -> bool:
        top = self.target.partition(".")[0]
        return top == "pasture" or top in sys.stdlib_module_names


def begin() -> None:
    """Make imports of this package eager, where all imports are lazy.

    In the parent, before the application is imported.
    """
    if sys.version_info < (3, 15):
        return
    before = sys.get_lazy_imports_filter()

    def is_lazy(importer: str, name: str, names: Iterable[str] | None) -> bool:
        if importer.partition(".")[0] == "pasture":
            return False
        return before is None or bool(before(importer, name, names))

    sys.set_lazy_imports_filter(is_lazy)


def resolve(
    refusal: Callable[[], str | None] = lambda: None,
) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """Make the pending imports of the standard library, and those that they cause.

    In the process that forks, before the seal. An import that fails stays pending: a worker
    that uses it gets the error, as without pasture.

    Args:
        refusal: called before each import; returns why to stop, or None.

    Returns:
        Number of names `resolved` and left `pending`, and errors, a line each.

    Raises:
        KeyboardInterrupt: the process was asked to end.
    """
    if sys.version_info >= (3, 15) and sys.get_lazy_imports() == "all":
        resolved, problems = _bind_what_is_loaded(), []
    else:
        resolved, problems = _resolve_standard(refusal)
    return {"resolved": resolved, "pending": len([*pending()])}, tuple(problems)


def _resolve_standard(refusal: Callable[[], str | None]) -> tuple[int, list[str]]:
    problems: list[str] = []
    tried: set[tuple[str, str]] = set()
    resolved = 0
    with Guard() as guard:
        while chosen := [p for p in pending() if p.is_standard and p.key not in tried]:
            for one in chosen:
                end = "the time for all of them is over" if guard.is_over else refusal()
                if end is not None:
                    return resolved, [*problems, f"lazy imports: {end}"]
                tried.add(one.key)
                name = f"lazy import {one.target}"
                outcome = guard.run(name, partial(_make, one))
                resolved += outcome.error is None
                if outcome.error is not None:
                    problems.append(f"{name} of {one.module.__name__}: {outcome.error}")
    return resolved, problems


def _make(one: Pending) -> None:
    ModuleType.__getattribute__(one.module, one.name)


def _bind_what_is_loaded() -> int:
    """Bind names to modules and values that other imports have loaded already.

    Each worker would do so at the first use of a name, in its own memory. Not if a program chooses
    its lazy imports: such a name may get another value after the fork.
    """
    bound = 0
    tried: set[tuple[str, str]] = set()
    while chosen := [p for p in pending() if _is_loaded(p.target) and p.key not in tried]:
        for one in chosen:
            tried.add(one.key)
            with suppress(Exception):  # workers get the error
                _make(one)
                bound += 1
    return bound


def _is_loaded(target: str) -> bool:
    if target in sys.modules:
        return True
    package, _, name = target.rpartition(".")
    held = vars(sys.modules[package]) if package in sys.modules else {}
    return name in held and type(held[name]) is not vars(types).get("LazyImportType")


def pending() -> Iterator[Pending]:
    """Every pending import of the loaded modules. Makes none of them."""
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
    """Submodules that stay pending: after a lazy `import a.b` a use of `a` imports only `a`."""
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
