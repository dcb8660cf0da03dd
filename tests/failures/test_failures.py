"""Some entry points with few requests; `make test-failures` runs all."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the tracer is for x86-64"),
    pytest.mark.skipif(sys.version_info < (3, 12), reason="CPython 3.11 has no immortal objects"),
]
ENTRIES = ("type_has_end", "gather_code")


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_point_survives_the_failure_of_each_request_for_memory(entry):
    command = [sys.executable, str(Path(__file__).parent), entry, "--kind", "memory", "--mode", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    points = int(done.stdout.splitlines()[-1].split()[0])
    assert points > 0
