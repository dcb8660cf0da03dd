"""The names of all modules at one moment, and putting back those that were bound since.

A program that makes a pool or a client at its first use keeps it under a name of a module, of a
class, of an object or in a dict there, or in the cache of a function. If that belongs to an event
loop which has ended, the name gets the value that it had, and each worker makes its own. Owns the
copy and the search. Nothing of an object is called.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

_MISSING = object()

_MAX_DEPTH = 6
"""Steps from a name's value to what belongs to the loop: a client in an object in a list, say. An
object and its attributes are up to two."""

_MAX_OBJECTS = 2_000
"""That are looked at behind one name."""

_MAX_DICT = 1_000
"""A dict of a module with more items is data."""

_CACHE: Any = type(functools.lru_cache(str))
_names_of_class: Any = type.__dict__["__dict__"].__get__
_bases_of: Any = type.__dict__["__mro__"].__get__
"""Of a class, whatever its metaclass makes of the attributes."""

_NOT_ENTERED = (types.ModuleType, types.FunctionType, types.CodeType, types.FrameType, type)


@dataclass(frozen=True, slots=True)
class _Space:
    name: str  # dotted, of the whole
    names: Any  # the names as they are now
    owner: type | None  # a class, whose names are set through it; None where `names` can be written
    then: dict[Any, Any]  # a copy


class Names:
    """Names in modules, classes, objects and dicts at the time when this was made."""

    def __init__(self) -> None:
        self._spaces = [
            _Space(name, names, owner, dict(names)) for name, names, owner in _spaces_of_modules()
        ]

    def put_back(self, objects: Collection[object]) -> tuple[str, ...]:
        """Put back names that lead to these objects, and clear such caches; their names."""
        wanted = frozenset(map(id, objects))
        if not wanted:
            return ()
        return tuple(dict.fromkeys(name for one in self._spaces for name in _put_back(one, wanted)))


def _spaces_of_modules() -> Iterator[tuple[str, Any, type | None]]:
    for name, module in list(sys.modules.items()):
        if type(module) is not types.ModuleType or _is_standard(name):
            continue
        yield name, vars(module), None
        for key, value in list(vars(module).items()):
            inner = f"{name}.{key}"
            if issubclass(type(value), type):
                names = _names_of_class(value)
                if names.get("__module__") == name:
                    yield inner, names, value
            elif type(value) is dict:
                if len(value) <= _MAX_DICT and not key.startswith("__"):
                    yield inner, value, None
            elif (attributes := _names_of(value)) is not None:
                yield inner, attributes, None


def _is_standard(name: str) -> bool:
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names or top == "pasture"


def _names_of(value: Any) -> dict[str, Any] | None:
    """The attributes of an object that keeps them in the ordinary way."""
    kind = type(value)
    module = _names_of_class(kind).get("__module__")
    if issubclass(kind, _NOT_ENTERED) or _is_standard(str(module)):
        return None
    for base in _bases_of(kind):
        getter = _names_of_class(base).get("__dict__")
        if getter is not None:
            is_ordinary = type(getter) is types.GetSetDescriptorType
            found = getter.__get__(value) if is_ordinary else None
            return found if type(found) is dict else None
    return None


def _put_back(space: _Space, wanted: frozenset[int]) -> Iterator[str]:
    for key, value in list(space.names.items()):
        then = space.then.get(key, _MISSING)
        if type(value) is _CACHE:
            if _leads_to(value, wanted):
                value.cache_clear()
                yield f"{space.name}.{key}"
        elif value is not then and _leads_to(value, wanted):
            _set(space, key, then)
            yield f"{space.name}.{key}"


def _set(space: _Space, key: Any, value: Any) -> None:
    if space.owner is None:
        if value is _MISSING:
            space.names.pop(key, None)
        else:
            space.names[key] = value
    elif value is _MISSING:
        type.__delattr__(space.owner, key)
    else:
        type.__setattr__(space.owner, key, value)


def _leads_to(value: Any, wanted: frozenset[int]) -> bool:
    seen = {id(value)}
    level = [value]
    for _ in range(_MAX_DEPTH):
        if not wanted.isdisjoint(map(id, level)):
            return True
        level = [
            one
            for one in gc.get_referents(*level)
            if id(one) not in seen and not issubclass(type(one), _NOT_ENTERED)
        ]
        seen.update(map(id, level))
        if not level or len(seen) > _MAX_OBJECTS:
            return False
    return not wanted.isdisjoint(map(id, level))
