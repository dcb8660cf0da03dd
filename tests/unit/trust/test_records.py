"""Dataclasses come back out of JSON as they were, and nothing else is taken for one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pytest

from pasture.trust.records import decoded

pytestmark = pytest.mark.once


class Place(NamedTuple):
    name: str
    hectares: float


@dataclass(frozen=True, slots=True)
class Animal:
    name: str
    weight_kg: float = 1.0
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class Herd:
    animals: tuple[Animal, ...]
    by_number: Mapping[int, Animal] = field(default_factory=dict)
    meadow: Place = field(default_factory=lambda: Place("north", 2.0))
    span: tuple[int, str] = (1, "year")
    log: list[str] = field(default_factory=list)
    more: Any = None


HERD = Herd(
    (Animal("Berta", 600.5, 7), Animal("Ada")),
    {7: Animal("Berta", 600.5, 7)},
    Place("south", 3.0),
    (2, "years"),
    ["came"],
    {"of": ["any", "form"]},
)


def plain() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(asdict(HERD)))
    return found


def test_a_dataclass_comes_back_as_it_was() -> None:
    assert decoded(Herd, plain()) == HERD


def test_a_key_that_is_missing_has_its_default_and_one_more_is_left_out() -> None:
    assert decoded(Animal, {"name": "Ada", "colour": "brown"}) == Animal("Ada")
    with pytest.raises(TypeError, match="name"):
        decoded(Animal, {"tag": 1})


@pytest.mark.parametrize(
    "spoil",
    [
        {"animals": {}},
        {"animals": [{"name": 3}]},
        {"animals": [{"name": "Ada", "tag": True}]},
        {"animals": [{"name": "Ada", "weight_kg": "heavy"}]},
        {"by_number": {"seven": {"name": "Ada"}}},
        {"meadow": ["south"]},
        {"span": [1, "year", "more"]},
        {"span": "1y"},
        {"log": None},
    ],
)
def test_a_value_of_another_type_is_refused(spoil: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decoded(Herd, {**plain(), **spoil})
