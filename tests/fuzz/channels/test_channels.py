"""Some thousand messages to each target of the fuzzer of channels, always the same ones."""

import subprocess
import sys
from pathlib import Path

import pytest

MESSAGES = 3000


@pytest.mark.once
def test_messages_of_less_trusted_processes_neither_end_nor_mislead_who_takes_them() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent), "--messages", str(MESSAGES), "--seed", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{MESSAGES:,} messages from seed 1" in done.stdout
