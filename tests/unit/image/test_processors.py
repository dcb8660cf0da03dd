"""Which processors an image is for."""

from __future__ import annotations

import pytest

from pasture.errors import ImageFailed
from pasture_image.build.host import NATIVE, rules

FOUND = tuple((1, value) for value in range(12))


def test_without_a_choice_all_facts_are_compared_by_their_rules() -> None:
    assert rules("", FOUND) == FOUND


def test_native_leaves_the_model_out_alone() -> None:
    needed = rules(NATIVE, FOUND)
    assert needed[3] == (0, 0)
    assert [one for at, one in enumerate(needed) if at != 3] == [
        one for at, one in enumerate(FOUND) if at != 3
    ]


def test_a_machine_that_has_models_alone_refuses_a_choice() -> None:
    with pytest.raises(ImageFailed, match="x86-64"):
        rules(NATIVE, FOUND[:9])
