"""Each library next to a seal: a child computes what its parent does, or the seal named why not.

`make test-libraries`. Used for the first time after the seal, or before it. A child that is not
right is not right without a seal either.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs import libraries

PROGRAM = Path(libraries.__file__)
PACKAGES = Path(sys.prefix) / "library-packages"
MODULES = {"torch_loader": "torch"}
LIMIT_S = 300
pytestmark = pytest.mark.timeout(4 * LIMIT_S)


def run(folder: Path, name: str, *words: str) -> dict[str, Any]:
    """What the program prints. Processes that it leaves, as loky's, are ended."""
    environ = {**os.environ, "PYTHONPATH": str(PACKAGES), "LIBRARY_LIMIT_S": "20"}
    output = folder / "-".join((name, *words))
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, PROGRAM, name, *words],
            stdout=file, stderr=file, env=environ, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(LIMIT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    text = output.read_text()
    assert status == 0, text
    found = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", libraries.CARDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_child_is_right_or_the_seal_has_named_why_not(
    tmp_path: Path, name: str, when: str
) -> None:
    module = MODULES.get(name, name)
    there = (PACKAGES / module).exists() or importlib.util.find_spec(module)
    if not there:
        pytest.skip(f"{module} is not installed")
    found = run(tmp_path, name, when)
    assert found["sealed"] and found["parent"] == "right"
    if found["child"] != "right":
        assert found["hazards"], found
        assert run(tmp_path, name, when, "stock")["child"] == found["child"]
