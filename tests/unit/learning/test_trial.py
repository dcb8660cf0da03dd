"""Values of modules that two copies of a parent must have alike."""

import sys
from types import ModuleType
from typing import Any

import pytest

from pasture.learning import trial


class Refusing:
    """Fails where it is looked into."""

    def __repr__(self) -> str:
        raise AssertionError

    __iter__ = __len__ = __hash__ = __eq__ = __repr__  # type: ignore[assignment]


def digest(monkeypatch: pytest.MonkeyPatch, **values: Any) -> str:
    module = ModuleType("made_for_this")
    vars(module).update(values)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return trial._digest([module.__name__])


def test_digests_are_equal_for_equal_values_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(*values: Any) -> str:
        return digest(monkeypatch, KEY=values)

    assert of({"a", "b"}, {"x": [1]}) == of({"b", "a"}, {"x": [1]})
    assert len({of(one) for one in ("1", 1, ["1"], {"x": "1"}, {"x": "2"}, b"1", Refusing())}) == 7


def test_values_that_refuse_or_have_no_end_are_looked_at_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endless: list[Any] = []
    endless += [endless, Refusing()]
    assert digest(monkeypatch, KEY=(endless,)) == digest(monkeypatch, KEY=(endless,))
