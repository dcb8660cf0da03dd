"""Scales and shapes of plots."""

import pytest

from pasture_tools.display.charts import Bar, Bars, Line, Lines, scale


@pytest.mark.parametrize(
    ("largest", "step", "end"),
    [
        (0, 1, 1),
        (1, 0.2, 1),
        (7, 2, 8),
        (10, 2, 10),
        (11, 5, 15),
        (0.03, 0.01, 0.03),
        (400, 100, 400),
    ],
)
def test_an_axis_ends_at_the_first_step_that_no_value_passes(
    largest: float, step: float, end: float
) -> None:
    assert scale([0.0, largest]) == pytest.approx((step, end))


def test_without_values_there_is_an_axis_all_the_same() -> None:
    assert scale([]) == (1, 1)
    assert Lines([Line("none", "red", [], [])], "requests", "MB").ticks == [(0, "0"), (100, "1")]


def test_a_line_runs_from_the_first_value_to_the_last() -> None:
    line = Line("seal", "red", [0, 50, 100], [0, 5, 10], low=[0, 0, 5], high=[0, 10, 10])
    plot = Lines([line], "requests", "MB")
    assert plot.path(line) == "M0.0,300.0 500.0,150.0 1000.0,0.0"
    assert plot.band(line).endswith("1000.0,150.0 500.0,300.0 0.0,300.0Z")
    assert plot.end == "100" and [text for _, text in plot.ticks][-1] == "10"


def test_the_longest_bar_is_as_wide_as_its_track() -> None:
    plot = Bars([("a", [Bar("x", "4", "red", 1, pale=3)]), ("b", [Bar("y", "1", "red", 1)])])
    assert (plot.share(4), plot.share(1)) == (100, 25)
    assert Bars([]).share(0) == 0
