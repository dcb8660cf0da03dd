"""Which lazy imports are made before the fork."""

import sys

import pytest

from pasture.warmup.lazy_imports import Pending

pytestmark = pytest.mark.interpreter


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("decimal.Decimal", True),
        ("pasture.sealing.seal", True),
        ("numpy", False),
        ("xmlschema.parts", False),
    ],
)
def test_those_of_the_standard_library_are_made(target: str, wanted: bool) -> None:
    assert Pending(sys, "name", target).is_standard is wanted
