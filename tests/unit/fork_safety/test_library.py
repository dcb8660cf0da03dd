"""Objects are found by the address of their type; nothing of the program is called."""

from __future__ import annotations

import gc
from typing import Any

from pasture.errors import UnsupportedInterpreter
from pasture.fork_safety import library as module
from pasture.fork_safety.library import instances


class Wanted:
    pass


class Derived(Wanted):
    pass


class Meta(type):
    """All that a search could call."""

    def _refuse(cls, *_: object) -> Any:
        raise AssertionError("the search called the program")

    __hash__ = __eq__ = __instancecheck__ = __subclasscheck__ = __getattribute__ = _refuse


class Proxy(metaclass=Meta):
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return Wanted

    def __eq__(self, _: object) -> bool:
        raise AssertionError("the search compared an object")

    __hash__ = None  # type: ignore[assignment]


def test_objects_of_a_class_and_of_derived_ones_are_found() -> None:
    held = [Wanted(), Derived(), [], object()]
    found = {id(one) for one in instances([Wanted])}
    assert {id(held[0]), id(held[1])} <= found
    assert id(held[2]) not in found
    assert {id(one) for one in instances([Derived])} == {id(held[1])}


def test_proxies_and_metaclasses_are_not_asked() -> None:
    held = [Proxy(), Derived()]
    assert {type(one) for one in instances([Derived])} == {Derived}
    del held


def test_no_class_finds_nothing_and_makes_no_list(monkeypatch: Any) -> None:
    monkeypatch.setattr(gc, "get_objects", None)
    assert instances([]) == []


def test_without_the_extension_the_same_is_found(monkeypatch: Any) -> None:
    def none() -> Any:
        raise UnsupportedInterpreter("no extension")

    held = [Wanted(), Derived(), []]
    with_it = {id(one) for one in instances([Wanted])}
    monkeypatch.setattr(module, "native", none)
    assert {id(one) for one in instances([Wanted])} == with_it
    del held


def test_many_classes_and_frozen_objects() -> None:
    classes = [type(f"Class{n}", (), {}) for n in range(300)]
    held = [one() for one in classes]
    assert {id(one) for one in instances(classes)} == set(map(id, held))
    gc.freeze()
    try:
        assert instances(classes) == []
    finally:
        gc.unfreeze()
