"""Each kind of object of an extension, dropped after a seal: what it held is given back as without.

`make test-libraries`. A kind whose package is missing is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import extension_ends

PROGRAM = Path(extension_ends.__file__)
PACKAGES = Path(sys.prefix) / "library-packages"
LIMIT_S = 120
pytestmark = pytest.mark.immortality


def dropped(*words: str) -> list[bool]:
    environ = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    command = [sys.executable, PROGRAM, *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LIMIT_S)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("kind", extension_ends.KINDS)
def test_what_a_dropped_object_held_is_given_back_after_a_seal(kind: str) -> None:
    assert dropped(kind) == [False, True]  # else the kind shows nothing
    assert dropped(kind, "seal") == [False, True]
