"""Many generations of reforks take no more than few: a short run of `make soak-generations`."""

import sys
from pathlib import Path

import pytest
from running import completed

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="the benchmarks are not here")
def test_the_twelfth_generation_is_as_large_as_the_fifth():
    command = [
        sys.executable,
        "-m",
        "benchmarks.soak_generations",
        "--generations",
        "12",
        "--warm",
        "4",
    ]
    found = completed(command, cwd=ROOT)
    assert found.returncode == 0, found.stdout + found.stderr
