"""Distinct values, without sorting all of them."""

import pytest

pytest.importorskip("numpy")

import numpy as np

from pasture_tools.explain import distinct
from pasture_tools.explain.distinct import Numbered


def test_distinct_values_are_the_same_as_by_sorting() -> None:
    codes = np.array([5, 3, 5, 0, 3, 9])
    found, which = distinct.of_codes(codes)
    assert found.tolist() == [0, 3, 5, 9]
    assert found[which].tolist() == codes.tolist()
    assert distinct.of_ascending(np.array([1, 1, 2, 7, 7])).tolist() == [1, 2, 7]


def test_numbers_of_values_stay_when_new_ones_come() -> None:
    numbered = Numbered()
    assert numbered.of(np.array([7, 5, 7], dtype=np.uint64)).tolist() == [1, 0, 1]
    assert numbered.of(np.array([6, 7, 1, 5], dtype=np.uint64)).tolist() == [3, 1, 2, 0]
    assert numbered.values == [5, 7, 1, 6]
