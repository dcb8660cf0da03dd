"""The boundaries in docs/internals/boundaries.md: each line names tests, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]

_TEST = re.compile(r"`((?:packages/lab/)?tests/[\w/.]+)`")


def test_each_boundary_names_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "internals" / "boundaries.md").read_text()
    _, _, *lines = [line for line in page.splitlines() if line.startswith("|")]
    assert lines
    for line in lines:
        tests = _TEST.findall(line.rstrip("| ").rpartition("|")[2])
        assert tests, f"no test: {line[:80]}"
        assert [test for test in tests if not (ROOT / test).exists()] == []
