"""Dataclasses from JSON: the reverse of `json.dumps(asdict(...))`, by the annotations.

A file or a message may come from another user: each value is checked. Unknown keys are left out,
since later versions add some.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any


def decoded(kind: Any, value: Any) -> Any:
    """The object that a value of JSON was before.

    Args:
        kind: a dataclass, a NamedTuple, a tuple of one length or of any, a mapping, a type or None,
            or the type that the value has already.

    Raises:
        ValueError, TypeError: a value is of another type; a key of a dataclass is missing.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        build: Any = kind
        hints, fields = _hints(build), _of(dict, value)
        return build(**{n: decoded(hint, fields[n]) for n, hint in hints.items() if n in fields})
    if origin in (typing.Union, types.UnionType):
        (some,) = (part for part in arguments if part is not types.NoneType)
        return None if value is None else decoded(some, value)
    if origin is tuple and arguments[-1] is ...:
        return tuple(decoded(arguments[0], part) for part in _list(value))
    if origin is tuple:
        return _parts(arguments, value)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return kind(*_parts(tuple(_hints(kind).values()), value))
    if origin is list:
        return [decoded(arguments[0], part) for part in _list(value)]
    if origin is not None and issubclass(origin, Mapping):
        key, content = arguments
        rows = ((int(k) if key is int else k, part) for k, part in _of(dict, value).items())
        return {k: decoded(content, part) for k, part in rows}
    if kind is Any:
        return value
    return float(value) if kind is float and type(value) is int else _of(kind, value)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The annotations of a class, cached: evaluating them takes longer than decoding a record."""
    return typing.get_type_hints(kind)


def _parts(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    return tuple(decoded(kind, part) for kind, part in zip(kinds, _list(value), strict=True))


def _list(value: Any) -> Any:
    return value if type(value) is tuple else _of(list, value)


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r:.40} is not a {kind.__name__}")
    return value
