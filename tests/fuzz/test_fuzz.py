"""Some seconds of the fuzzer, always the same seeds, as far as the time goes.

On a check build, whose verifier walks the heap; `make fuzz` runs it for as long as you like.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pasture import _native

CHECK_BUILD = hasattr(_native, "fail_scratch_after")
MINUTES = 0.2  # a minute on the five interpreters of `make test`
FIRST_SEED = 1


@pytest.mark.skipif(not CHECK_BUILD, reason="needs the check build's verifier")
def test_random_programs_find_their_heap_as_they_left_it(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    words = ["--minutes", str(MINUTES), "--seed", str(FIRST_SEED), "--no-shrink"]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent), *words, "--results", str(results)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(results.read_text())["operations"] > 0
