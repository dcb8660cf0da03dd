"""Types of extensions whose objects stay mortal, and the declaration that they may be sealed.

Owns their part of a report. The types that are known to hold only memory are in the extension's
list (`src/native/seal/memory_types.c`) or registered by programs.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from pasture.errors import UnsupportedInterpreter, UsageError
from pasture.interpreter import native

MANY_OBJECTS = 1_000
"""The report names a mortal type with more objects than this."""


@dataclass(frozen=True, slots=True)
class TypeCount:
    """The objects of a type that a seal has counted.

    Attributes:
        name: module and name of the type.
        objects: their number.
        bytes: of these objects, the storage of lists, dictionaries and sets included.
    """

    name: str
    objects: int
    bytes: int


def holds_memory(kind: type) -> None:
    """Declare that objects of a type of an extension hold only memory, and may be sealed.

    The seal leaves other objects of extensions mortal, since freeing one may close a file, unlock,
    unmap or release a buffer: each child copies their pages. The report names types with more than
    1,000 objects. Types of numpy, pandas and other packages are known.

    Args:
        kind: a type that is written in C, Cython, C++ or Rust, or a class derived from one. Its
            objects hold only memory and other objects, and `gc.get_referents` yields each of these.
            So do derived types, unless they free something themselves.
            Objects with a finalizer, a weak reference with a callback, or a member whose own end
            matters stay mortal nevertheless.

    Raises:
        UsageError: `kind` is not a type.
    """
    if not isinstance(kind, type):
        raise UsageError(
            f"holds_memory({kind!r}): needs a type", hint="pasture.holds_memory(fastlib.Node)"
        )
    with suppress(UnsupportedInterpreter):
        native().register_memory_type(kind)


def by_bytes(counted: Iterable[tuple[type, int, int]]) -> tuple[TypeCount, ...]:
    """The types in words, those with most bytes first."""
    found = [
        TypeCount(f"{kind.__module__}.{kind.__qualname__}", objects, size)
        for kind, objects, size in counted
    ]
    return tuple(sorted(found, key=lambda one: -one.bytes))


def with_many_objects(counted: Iterable[tuple[type, int, int]]) -> tuple[TypeCount, ...]:
    """Types with more than `MANY_OBJECTS`, those with most bytes first."""
    return tuple(one for one in by_bytes(counted) if one.objects > MANY_OBJECTS)


def note_of(types: Iterable[TypeCount]) -> str:
    """A sentence for the report."""
    found = [f"{one.objects:,} {one.name} ({one.bytes / 1e6:.1f} MB)" for one in types]
    return (
        f"objects of extensions stay private: {', '.join(found)}; "
        "if they hold memory alone: pasture.holds_memory(TYPE)"
    )
