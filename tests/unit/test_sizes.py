"""No room of the repository grows beyond its row in sizes.toml, and a row falls with its room."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.once

REPOSITORY = Path(__file__).parents[2]


sizes = SimpleNamespace(**runpy.run_path(str(REPOSITORY / "tools" / "sizes")))


def test_no_room_grows_and_each_row_falls_with_its_room() -> None:
    found = list(sizes.differing(sizes.read(), sizes.measure()))
    assert not found, (
        "row, allowed, now: name what goes for what grows (CONTRIBUTING.md); "
        f"`tools/sizes --lower` writes what fell: {found}"
    )


def test_each_source_file_lies_in_a_room() -> None:
    rooms = sizes.read()["lines"]
    assert [name for name in sizes.files() if not sizes.room_of(name, rooms)] == []


@pytest.mark.parametrize(
    ("now", "is_refused"), [(1001, True), (1000, False), (981, False), (979, True)]
)
def test_a_number_may_lie_two_per_cent_below_its_row(now: int, is_refused: bool) -> None:
    table = {"lines": {"src": 1000}}
    assert list(sizes.differing(table, {"lines": {"src": now}})) == (
        [("src", 1000, now)] if is_refused else []
    )


def test_a_file_counts_in_the_innermost_room() -> None:
    rooms = {"tests": 0, "tests/unit": 0}
    assert sizes.room_of("tests/unit/test_sizes.py", rooms) == "tests/unit"
    assert sizes.room_of("tests/conftest.py", rooms) == "tests"
    assert sizes.room_of("tools/sizes", rooms) == ""
