"""The programs that run other people's tests: they start, and report what became of each test."""

import sys
from pathlib import Path

import pytest
from running import completed

ROOT = Path(__file__).parents[2]


@pytest.mark.once
@pytest.mark.parametrize(
    "program",
    [
        *("matrix/packages", "matrix/cpython", "matrix/cpython/everything.py"),
        *("matrix/cpython/collector.py", "tests/fuzz"),
    ],
)
def test_each_of_them_starts(program):
    words = [sys.executable, ROOT / program, "--help"]
    done = completed(words)
    assert done.returncode == 0, done.stderr
