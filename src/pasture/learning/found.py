"""The modules, templates and patterns in a process's memory, as lines of entries.

Calls no code of the application. Only templates from files count, and regular expressions that are
constants of code that ran: the rest may contain text that a user has typed.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

from pasture.learning.file import show_pattern

_NO_HOLDERS = frozenset(
    (
        *(type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, str, int, bool, float),
        *(tuple, list, dict, set, frozenset, bytes, type(None), re.Pattern),
        functools._lru_cache_wrapper,
    )
)
"""Common types of objects in modules that are not environments of Jinja's and hold none."""


def contents_of(thing: Any) -> Mapping[str, Any]:
    """The dictionary of an object; empty without one. Does not load a module that loads itself at
    the first use of an attribute.
    """
    try:
        held = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return held if isinstance(held, (dict, MappingProxyType)) else {}


def modules(names: Iterable[str]) -> list[str]:
    """Lines for the imported modules among these names; empty while one of them is loading, since
    the modules that it imports belong behind it.
    """
    found = []
    for name in names:
        spec = contents_of(sys.modules.get(name)).get("__spec__")
        if getattr(spec, "_initializing", False):
            return []
        if spec is not None and name.partition(".")[0] not in ("pasture", "__mp_main__"):
            found.append(f"module {name}")
    return found


def patterns(codes: Iterable[CodeType]) -> Iterator[str]:
    """The regular expressions in the cache of `re` that are constants of these code objects."""
    constants = {one for code in codes for one in code.co_consts if type(one) is str}
    for kind, pattern, flags, *_ in list(getattr(re, "_cache", ())):
        if kind is str and pattern in constants:
            yield f"pattern {show_pattern(pattern, int(flags))}"


def templates() -> Iterator[str]:
    """The templates that Django and Jinja have loaded."""
    yield from _of_django()
    yield from _of_jinja()


def _is_path(name: Any) -> bool:
    return isinstance(name, str) and name.startswith("/")


def _of_django() -> Iterator[str]:
    handler = getattr(sys.modules.get("django.template"), "engines", None)
    for alias, backend in list(getattr(handler, "_engines", {}).items()):
        loaders = vars(getattr(backend, "engine", None) or object).get("template_loaders", ())
        for loader in loaders:
            for template in list(getattr(loader, "get_template_cache", {}).values()):
                held = contents_of(template)  # an exception class stands for a missing template
                if _is_path(contents_of(held.get("origin")).get("name")):
                    yield f"template django {alias} {held.get('name')}"


def _of_jinja() -> Iterator[str]:
    kind = getattr(sys.modules.get("jinja2.environment"), "Environment", None)
    for place, environment in _environments(kind) if kind is not None else ():
        for key, template in list((getattr(environment.cache, "_mapping", None) or {}).items()):
            if _is_path(contents_of(template).get("filename")):
                yield f"template jinja {place} {key[1]}"


def _environments(kind: type) -> Iterator[tuple[str, Any]]:
    """Environments that a module or one of its objects holds, such as Flask's application."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in sys.stdlib_module_names or name.startswith("jinja2"):
            continue
        for attribute, value in list(contents_of(module).items()):
            if type(value) in _NO_HOLDERS:
                continue
            if issubclass(type(value), kind):
                yield f"{name}:{attribute}", value
                continue
            for inner, held in list(contents_of(value).items()):
                if type(held) not in _NO_HOLDERS and issubclass(type(held), kind):
                    yield f"{name}:{attribute}.{inner}", held
