"""The table of boundaries in docs/security.md: each line names tests, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]

_SECTION = re.compile(r"^## Who trusts whom\n(.*?)^## ", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"`((?:lab/)?tests/[\w/.]+)`")


def test_each_boundary_names_tests_that_are_there() -> None:
    section = _SECTION.search((ROOT / "docs" / "security.md").read_text())
    assert section is not None
    _, _, *lines = [line for line in section[1].splitlines() if line.startswith("|")]
    assert lines
    for line in lines:
        tests = _TEST.findall(line.rstrip("| ").rpartition("|")[2])
        assert tests, f"no test: {line[:80]}"
        assert [test for test in tests if not (ROOT / test).exists()] == []
