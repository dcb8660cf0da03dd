"""Limits of tests are for what hangs: a machine that is busy passes none of them."""

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
MIN_S = 600


def test_no_test_has_less_than_ten_minutes() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert settings["timeout"] >= MIN_S
    short = {
        f"{path.relative_to(ROOT)}: {limit}"
        for folder in ("tests", "packages")
        for path in (ROOT / folder).rglob("*.py")
        for limit in re.findall(r"mark\.timeout\((\d+)\)", path.read_text())
        if int(limit) < MIN_S
    }
    assert not short
