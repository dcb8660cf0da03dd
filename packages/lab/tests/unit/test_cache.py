"""What perf and cachegrind print of the processor's caches, read back."""

import pytest

from pasture.errors import NotMeasurable
from pasture_lab.experiments.cache import read_cachegrind, read_counts


def test_counters_that_are_not_supported_are_left_out() -> None:
    text = "<not supported>;;cycles;0;100.00;;\n1234;;cache-misses:u;1000;100.00;;\n"
    assert read_counts(text) == {"cache-misses": 1234.0}


def test_data_misses_of_cachegrind_are_reads_and_writes() -> None:
    text = "events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nsummary: 9 1 1 100 20 3 50 10 4\n"
    assert read_cachegrind(text) == (150, 7)


def test_cachegrind_without_a_cache_is_not_measurable() -> None:
    with pytest.raises(NotMeasurable):
        read_cachegrind("events: Ir\nsummary: 9\n")
