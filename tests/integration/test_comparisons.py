"""The programs that run other people's tests: they start, and report what became of each test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from outcomes import read_outcomes

ROOT = Path(__file__).parents[2]

THEIR_TESTS = """
import sys, pytest

KEPT = ["made before the fork"]

def test_that_passes():
    assert KEPT

def test_that_is_skipped():
    pytest.skip("not here")

def test_that_fails():
    assert not KEPT

def test_that_sees_the_seal():
    assert sys.getrefcount(KEPT) < 100
"""


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
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("sealed", [False, True])
def test_a_package_is_tested_in_a_forked_child(tmp_path, sealed):
    (tmp_path / "test_theirs.py").write_text(THEIR_TESTS)
    events = tmp_path / "events"
    words = ["--events", events, "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-c/dev/null"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_sealed_child", *words, tmp_path]
        + ["--seal"] * sealed,
        env={**os.environ, "PYTHONPATH": str(ROOT / "matrix" / "packages" / "inside")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes, happened = read_outcomes(events.read_text().splitlines())
    assert "finished" in happened
    assert {test.partition("::")[2]: each.outcome for test, each in outcomes.items()} == {
        "test_that_passes": "passed",
        "test_that_is_skipped": "skipped",
        "test_that_fails": "failed",
        "test_that_sees_the_seal": "failed" if sealed else "passed",
    }
