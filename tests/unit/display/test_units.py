"""Figures as a person reads them."""

import pytest

from pasture_tools.display.units import count, megabytes, milliseconds, percent, seconds


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0.0 MB"),
        (49_999, "0.0 MB"),
        (1_000_000, "1.0 MB"),
        (99_900_000, "99.9 MB"),
        (100_000_000, "100 MB"),
        (1_234_000_000, "1,234 MB"),
        (-150_000_000, "-150 MB"),
    ],
)
def test_a_megabyte_is_a_million_bytes(size: int, text: str) -> None:
    assert megabytes(size) == text


def test_decimals_are_shown_where_they_say_something() -> None:
    assert (milliseconds(0.346), milliseconds(0.354)) == ("0.35", "0.35")
    assert (milliseconds(0.34), milliseconds(0.99)) == ("0.34", "0.99")
    assert (milliseconds(9.94), milliseconds(10.2), milliseconds(1234.5)) == ("9.9", "10", "1,234")
    assert (seconds(0.424), seconds(9.99), seconds(10.04)) == ("0.42 s", "9.99 s", "10.0 s")
    assert (percent(0.544), percent(1)) == ("54 %", "100 %")


def test_one_is_singular_and_none_is_not() -> None:
    assert [count(n, "worker") for n in (0, 1, 2, 1500)] == [
        "0 workers",
        "1 worker",
        "2 workers",
        "1,500 workers",
    ]
