"""Holders that are classes and their instances, with slots, dictionaries and bases at random."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import typing
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from random import Random
from typing import Any

from holders import holder
from world import Getter

BASES: tuple[type, ...] = (
    list,
    dict,
    tuple,
    int,
    str,
    bytes,
    bytearray,
    float,
    set,
    frozenset,
    collections.deque,
    collections.OrderedDict,
    collections.defaultdict,
    Exception,
    property,
)
SLOTS: tuple[tuple[str, ...] | None, ...] = (
    None,
    None,
    (),
    ("s{}",),
    ("s{}", "t{}"),
    ("s{}", "__dict__"),
    ("__weakref__",),
    ("__weakref__", "s{}", "__dict__"),
    ("__dict__",),
    tuple(f"s{{}}_{i}" for i in range(20)),
)


class OddMeta(type):
    """Classes are instances of a subclass of `type` that has slots' worth of its own state."""

    def __new__(mcs, name: str, bases: tuple[type, ...], names: dict[str, Any]) -> Any:
        names["made_by"] = mcs
        made = super().__new__(mcs, name, bases, names)
        made.registry = [made]
        return made

    def mro(cls) -> list[type]:
        return list(super().mro())

    def __call__(cls, *args: Any) -> Any:
        made = super().__call__(*args)
        return made


class SlotMeta(type):
    """A subclass of `type` without a slot of its own: CPython allows no other number."""

    __slots__ = ()


class CallableMeta(SlotMeta):
    """Its instances have values that no class has in its dictionary."""

    registry: list[Any]

    def __init__(cls, *arguments: Any) -> None:
        super().__init__(*arguments)
        cls.registry = [cls, [cls]]


METAS = (type, type, type, OddMeta, abc.ABCMeta, SlotMeta, CallableMeta)


def draw_class(rng: Random) -> type:
    """A class at the end of a random line of classes."""
    made: type = rng.choice(BASES) if rng.random() < 0.4 else object
    meta = rng.choice(METAS)
    for level in range(rng.randrange(1, 5)):
        made = _derive(made, meta, rng.choice(SLOTS), level)
    return made


def _derive(base: type, meta: type, slots: tuple[str, ...] | None, level: int) -> type:
    names: dict[str, Any] = {"__module__": __name__}
    if slots is not None:
        names["__slots__"] = tuple(slot.format(level) for slot in slots)
    try:
        return meta(f"Level{level}", (base,), dict(names))
    except TypeError:  # slots that this base cannot have, or has
        names.pop("__slots__", None)
        return meta(f"Level{level}", (base,), names)


def _set_any(made: Any, held: Any) -> str:
    """Sets one attribute, a slot or one of a dictionary; returns its name."""
    for name in (
        "held",
        *(n for each in type(made).__mro__ for n in vars(each).get("__slots__", ())),
    ):
        if not name.startswith("__"):
            try:
                setattr(made, name, held)
            except AttributeError:
                continue
            return name
    return ""


class Keeper:
    """An ordinary instance: its values lie in it until it has a dictionary."""

    def __init__(self, held: Any) -> None:
        self.number = 1
        self.held = held


@holder
def in_instance(held: Any, rng: Random) -> tuple[Any, Getter]:
    return Keeper(held), attrgetter("held")


@holder
def in_random_class(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = draw_class(rng)()
    for number in range(rng.choice((0, 0, 3, 40))):
        try:
            setattr(made, f"a{number}", number)
        except AttributeError:
            break
    name = _set_any(made, held)
    if not name:
        made = Keeper(held)
        name = "held"
    if rng.random() < 0.2 and hasattr(made, "__dict__"):
        made.__dict__["more"] = 1
    return made, attrgetter(name)


@holder
def in_many_instances(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = draw_class(rng)
    instances = [made() for _ in range(rng.randrange(1, 300))]
    if not _set_any(instances[0], held):
        instances[0] = Keeper(held)
    name = _set_any(instances[0], held)
    return instances, lambda made: getattr(made[0], name)


@holder
def in_materialized(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = Keeper(held)
    names = vars(made)
    how = rng.randrange(4)
    if how == 0:
        for number in range(50):
            setattr(made, f"many{number}", number)
    elif how == 1:
        del made.number
        made.number = 2
    elif how == 2:
        names[7] = 7  # a key that no shared table takes
    else:
        made.__dict__ = {"held": held}
    return (names, made), lambda made: made[1].held


@holder
def in_orphaned_dict(held: Any, rng: Random) -> tuple[Any, Getter]:
    return vars(Keeper(held)), lambda made: made["held"]


@holder
def in_class(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = draw_class(rng)
    made.held_by_class = held  # type: ignore[attr-defined]
    return made, lambda made: vars(made)["held_by_class"]  # whatever descriptor it is


@holder
def in_property(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = type("WithProperty", (), {"held": property(lambda self: held)})
    return made(), attrgetter("held")


@holder
def in_dataclass(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = dataclasses.make_dataclass(
        "Data", ["a", "held"], slots=rng.random() < 0.5, frozen=rng.random() < 0.5
    )
    return made(1, held), attrgetter("held")


@holder
def in_enum(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = enum.Enum("Choice", {"ONE": 1, "HELD": [held]})
    return made, lambda made: made.HELD.value[0]


@holder
def in_named_tuple(held: Any, rng: Random) -> tuple[Any, Getter]:
    return collections.namedtuple("Pair", "a held")(1, held), attrgetter("held")


T = typing.TypeVar("T")


@holder
def in_generic(held: Any, rng: Random) -> tuple[Any, Getter]:
    class Generic(typing.Generic[T]):
        kept = (held,)

    return Generic[int]() if rng.random() < 0.5 else Generic, lambda made: made.kept[0]


class _Descriptor:
    def __init__(self, held: Any) -> None:
        self.held = held

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.held


@holder
def in_descriptor(held: Any, rng: Random) -> tuple[Any, Getter]:
    return type("Described", (), {"held": _Descriptor(held)})(), attrgetter("held")


def _bound(function: Callable[..., Any], self: Any) -> Any:
    return function(self)


@holder
def in_super(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = Keeper(held)
    return super(Keeper, made), lambda made: made.__self__.held


@holder
def in_bound_partial(held: Any, rng: Random) -> tuple[Any, Getter]:
    return partial(_bound, attrgetter("held"), Keeper(held)), lambda made: made()
