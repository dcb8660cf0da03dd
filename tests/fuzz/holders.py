"""Kinds of objects that can hold another one: containers, and what the library makes.

A holder is a function of what is to be held and of a random generator; it returns the object
and a getter, which finds in it what it holds and must not refer to that itself. Each module
`holders_*.py` registers its own.
"""

from __future__ import annotations

import collections
import functools
import itertools
import sys
import types
from collections.abc import Callable
from operator import attrgetter, itemgetter
from random import Random
from typing import Any

from world import Getter

Holder = Callable[[Any, Random], tuple[Any, Getter]]

HOLDERS: dict[str, Holder] = {}
OPAQUE: set[str] = set()

longest = 1000
"""What the longest containers have, about; the program sets it for its case."""


def holder(function: Holder) -> Holder:
    HOLDERS[function.__name__] = function
    return function


def opaque_holder(function: Holder) -> Holder:
    """One that hides from the collector what it holds: a cycle through it is never found."""
    OPAQUE.add(function.__name__)
    return holder(function)


def draw_holder(rng: Random) -> tuple[str, Holder]:
    name = rng.choice(sorted(HOLDERS))
    return name, HOLDERS[name]


def filling(rng: Random, count: int) -> list[Any]:
    """Objects as long containers have them: many, small, most of them the interpreter's own."""
    kind = rng.randrange(9)
    if kind == 0:
        text = "The quick brown fox jumps over the lazy dog; 0123456789 $%&@!? "
        return list((text * (count // len(text) + 1))[:count])
    if kind == 1:
        return [bytes((i % 256,)) for i in range(count)]
    if kind == 2:
        return [sys.intern(f"name_{i % 3000}") for i in range(count)]
    if kind == 3:
        names = [name for each in (dict, str, object, types.CodeType) for name in dir(each)]
        return [names[i % len(names)] for i in range(count)]
    if kind == 4:
        return [i % 300 - 20 for i in range(count)]
    if kind == 5:
        alike: tuple[Any, ...] = ((), frozenset(), "", b"", None, True, ..., NotImplemented, 1.5)
        return [alike[i % len(alike)] for i in range(count)]
    if kind == 6:
        return [(i, str(i)) for i in range(count)]
    if kind == 7:
        return [chr(i % 0x800) for i in range(count)]
    statics = [each for each in vars(types).values() if isinstance(each, type)]
    return [statics[i % len(statics)] for i in range(count)]


def draw_length(rng: Random) -> int:
    return int(longest ** rng.random())


@holder
def in_list(held: Any, rng: Random) -> tuple[Any, Getter]:
    return [held], itemgetter(0)


@holder
def in_tuple(held: Any, rng: Random) -> tuple[Any, Getter]:
    return ((), held), itemgetter(1)


@holder
def in_long_list(held: Any, rng: Random) -> tuple[Any, Getter]:
    made = filling(rng, draw_length(rng))
    place = rng.randrange(len(made) + 1)
    made.insert(place, held)
    return made, itemgetter(place)


@holder
def in_long_tuple(held: Any, rng: Random) -> tuple[Any, Getter]:
    made, get = in_long_list(held, rng)
    return tuple(made), get


@holder
def in_dict(held: Any, rng: Random) -> tuple[Any, Getter]:
    return {"key": held, 1: None}, itemgetter("key")


@holder
def in_huge_dict(held: Any, rng: Random) -> tuple[Any, Getter]:
    made: dict[Any, Any] = {number: str(number) for number in range(draw_length(rng))}
    made["key"] = held
    for number in range(0, len(made) - 1, 3):
        del made[number]
    return made, itemgetter("key")


class ByIdentity:
    """May be a key, whatever it holds."""

    def __init__(self, held: Any) -> None:
        self.held = held


def _held_by_first(holder: Any) -> Any:
    return next(iter(holder)).held


@holder
def in_set(held: Any, rng: Random) -> tuple[Any, Getter]:
    return rng.choice((set, frozenset))((ByIdentity(held),)), _held_by_first


@holder
def as_key(held: Any, rng: Random) -> tuple[Any, Getter]:
    return {ByIdentity(held): None}, _held_by_first


@holder
def in_deque(held: Any, rng: Random) -> tuple[Any, Getter]:
    return collections.deque([held, *filling(rng, rng.randrange(200))]), itemgetter(0)


@holder
def in_ordered_dict(held: Any, rng: Random) -> tuple[Any, Getter]:
    return collections.OrderedDict(a=1, key=held), itemgetter("key")


@holder
def in_default_dict(held: Any, rng: Random) -> tuple[Any, Getter]:
    return collections.defaultdict(lambda: held), lambda made: made.default_factory()


@holder
def in_chain_map(held: Any, rng: Random) -> tuple[Any, Getter]:
    return collections.ChainMap({}, {"key": held}), itemgetter("key")


@holder
def in_mapping_proxy(held: Any, rng: Random) -> tuple[Any, Getter]:
    return types.MappingProxyType({"key": held}), itemgetter("key")


@holder
def in_cell(held: Any, rng: Random) -> tuple[Any, Getter]:
    return types.CellType(held), attrgetter("cell_contents")


@holder
def in_slice(held: Any, rng: Random) -> tuple[Any, Getter]:
    return slice(None, held, 1), attrgetter("stop")


@holder
def in_namespace(held: Any, rng: Random) -> tuple[Any, Getter]:
    return types.SimpleNamespace(held=held, other=1), attrgetter("held")


@holder
def in_module(held: Any, rng: Random) -> tuple[Any, Getter]:
    module = types.ModuleType("made")
    exec("def give():\n    return held", vars(module))
    vars(module)["held"] = held
    return module, lambda made: made.give()


@holder
def in_partial(held: Any, rng: Random) -> tuple[Any, Getter]:
    return functools.partial(id, held), lambda made: made.args[0]


@holder
def in_cache(held: Any, rng: Random) -> tuple[Any, Getter]:
    cached = functools.lru_cache(rng.choice((None, 4)))(lambda _, held=held: held)
    cached(1)
    return cached, lambda made: made(1)


@holder
def in_alias(held: Any, rng: Random) -> tuple[Any, Getter]:
    return types.GenericAlias(list, (held,)), lambda made: made.__args__[0]


@holder
def in_cycle(held: Any, rng: Random) -> tuple[Any, Getter]:
    return itertools.cycle((held,)), next


@holder
def in_repeat(held: Any, rng: Random) -> tuple[Any, Getter]:
    return itertools.repeat(held), next


@holder
def in_map(held: Any, rng: Random) -> tuple[Any, Getter]:
    return map(lambda _: held, itertools.count()), next


if sys.version_info >= (3, 13):  # 3.12.1 itself crashes where one is in a cycle at its end

    @holder
    def in_tee(held: Any, rng: Random) -> tuple[Any, Getter]:
        pair = itertools.tee(itertools.repeat(held))
        next(pair[1])
        return pair, lambda made: next(made[0])


@holder
def in_view(held: Any, rng: Random) -> tuple[Any, Getter]:
    return {"key": held}.values(), lambda made: next(iter(made))


if sys.version_info >= (3, 15):

    @holder
    def in_frozen_dict(held: Any, rng: Random) -> tuple[Any, Getter]:
        return frozendict({"key": held, **dict.fromkeys(filling(rng, 20))}), itemgetter("key")  # noqa: F821
