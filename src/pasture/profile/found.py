"""What a worker has built since its fork, looked for in its own memory.

Looks at modules, caches, templates and connections, of which there is a list somewhere. What cannot
be found afterwards is noted as it happens (`recorder`). Nothing of the application's is called: a
look is safe at any time, in any thread.
"""

from __future__ import annotations

import _socket
import gc
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from pasture.fork_safety.caches import Cache
from pasture.fork_safety.open_files import Socket, describe, open_files
from pasture.profile.build import contents_of, resolve

_NO_HOLDERS = frozenset(
    (
        *(type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, str, int, bool, float),
        *(tuple, list, dict, set, frozenset, bytes, type(None), re.Pattern, Cache),
    )
)
"""Types of most of what modules hold: none is an environment of Jinja's, or holds one."""


def caches_of(modules: Iterable[str]) -> Iterator[Any]:
    """Caches that are functions of modules, or methods of their classes."""
    for name in modules:
        for value in list(contents_of(sys.modules.get(name)).values()):
            if type(value) is Cache:
                yield value
            elif isinstance(value, type) and vars(value).get("__module__") == name:
                yield from (one for one in list(vars(value).values()) if type(one) is Cache)


def name_of_cache(cached: Any) -> str | None:
    """Its entry; None where no parent would find it again, or need it: filled by arguments."""
    module = str(getattr(cached, "__module__", ""))
    name = f"{module}:{getattr(cached, '__qualname__', '')}"
    try:
        if resolve(name) is not cached:
            return None
    except Exception:
        return None
    takes_none = any(type(part) is dict and () in part for part in gc.get_referents(cached))
    if takes_none:
        return name
    return None if module.partition(".")[0] in sys.stdlib_module_names else f"{name}(...)"


def templates() -> Iterator[str]:
    """Entries of the templates that Django and Jinja have loaded."""
    yield from _of_django()
    yield from _of_jinja()


def _of_django() -> Iterator[str]:
    handler = getattr(sys.modules.get("django.template"), "engines", None)
    for alias, backend in list(getattr(handler, "_engines", {}).items()):
        loaders = vars(getattr(backend, "engine", None) or object).get("template_loaders", ())
        for loader in loaders:
            for template in list(getattr(loader, "get_template_cache", {}).values()):
                name = getattr(template, "name", None)  # a class of exception for a missing one
                if isinstance(name, str):
                    yield f"django {alias} {name}"


def _of_jinja() -> Iterator[str]:
    kind = getattr(sys.modules.get("jinja2.environment"), "Environment", None)
    if kind is None:
        return
    for place, environment in _environments(kind):
        for key in list(getattr(environment.cache, "_mapping", None) or ()):
            yield f"jinja {place} {key[1]}"


def _environments(kind: type) -> Iterator[tuple[str, Any]]:
    """Environments that modules hold, or an object of a module, as Flask's application."""
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


def connections() -> Iterator[str]:
    """Entries of the connections that this process has opened, as far as they are open now."""
    found = [
        one
        for number, what in open_files()
        if stat.S_ISSOCK(what.st_mode)
        if (one := _ends(number)) is not None
    ]
    listening = {own for own, other in found if other is None}
    for own, other in found:
        if other is not None and own not in listening:
            yield f"unix {other}" if isinstance(other, str) else f"tcp {other}"


def _ends(number: int) -> tuple[int | str, int | str | None] | None:
    """Port or path of a stream's own end, and of the other; None for that where it listens.

    None for what is neither, or has no name.
    """
    one = describe(number)
    if one is None or one.kind != _socket.SOCK_STREAM:
        return None
    if one.is_listening:
        return _short(one, one.own), None
    other = _short(one, one.peer)
    return (_short(one, one.own), other) if other else None


def _short(one: Socket, address: str) -> int | str:
    if one.family in (_socket.AF_INET, _socket.AF_INET6):
        return int(address.rpartition(":")[2] or 0)
    return address if address.startswith("/") else ""
