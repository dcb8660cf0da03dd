"""A thousand messages to each target of the fuzzer of channels, always the same ones."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

MESSAGES = 1000


@pytest.mark.once
@pytest.mark.skipif(find_spec("gunicorn") is None, reason="the mold's target is gunicorn's")
def test_messages_of_less_trusted_processes_neither_end_nor_mislead_who_takes_them() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent), "--messages", str(MESSAGES), "--seed", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{MESSAGES:,} messages from seed 1" in done.stdout
