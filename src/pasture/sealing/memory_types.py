"""Types of extensions whose objects stay mortal, and how a program says that they need not.

Owns what a report says of them. Which types are known to hold memory alone is the extension's list
(`src/native/seal/memory_types.c`) and what programs register.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from pasture.errors import UnsupportedInterpreter, UsageError
from pasture.interpreter import native

MANY_OBJECTS = 1_000
"""Of a type that stays mortal: with more the report names it."""


@dataclass(frozen=True, slots=True)
class MortalType:
    """A type whose objects stay mortal, since it is not known that they hold memory alone.

    Attributes:
        name: its module and name.
        objects: those that stay mortal.
        bytes: of these objects. A child copies the pages that they lie on when it reads them.
    """

    name: str
    objects: int
    bytes: int


def holds_memory(kind: type) -> None:
    """Say that objects of a type of an extension hold memory alone, and may be sealed.

    The seal leaves other objects of extensions mortal, since freeing one may close a file, unlock,
    unmap or release a buffer: each child copies their pages. The report names types with more than
    1,000 objects. Types of numpy, pandas and other packages are known.

    Args:
        kind: a type that is written in C, Cython, C++ or Rust, or a class derived from one. Its
            objects hold only memory and other objects, and `gc.get_referents` yields each of these.
            So do derived types, unless they free something themselves.
            An end that shows otherwise still counts: a finalizer, a weak reference with a callback,
            an object whose own end matters.

    Raises:
        UsageError: `kind` is not a type.
    """
    if not isinstance(kind, type):
        raise UsageError(
            f"holds_memory({kind!r}): needs a type", hint="pasture.holds_memory(fastlib.Node)"
        )
    with suppress(UnsupportedInterpreter):
        native().register_memory_type(kind)


def with_many_objects(counted: Iterable[tuple[type, int, int]]) -> tuple[MortalType, ...]:
    """Types with more than `MANY_OBJECTS`, those with most bytes first."""
    found = [
        MortalType(f"{kind.__module__}.{kind.__qualname__}", objects, size)
        for kind, objects, size in counted
        if objects > MANY_OBJECTS
    ]
    return tuple(sorted(found, key=lambda one: -one.bytes))


def note_of(types: Iterable[MortalType]) -> str:
    """A sentence for the report."""
    found = [f"{one.objects:,} {one.name} ({one.bytes / 1e6:.1f} MB)" for one in types]
    return (
        f"objects of extensions stay private: {', '.join(found)}; "
        "if they hold memory alone: pasture.holds_memory(TYPE)"
    )
