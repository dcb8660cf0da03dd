"""The recorder of a build ends with the process that started it, and ends what it records."""

from __future__ import annotations

import subprocess
import sys

import pytest
from images import STUB

pytestmark = [pytest.mark.once, pytest.mark.integration]

RECORDED = "import os\nprint('ready', flush=True)\nwhile True: os.stat('/')\n"
STARTER = f"""\
import os, subprocess, sys
record = os.memfd_create("record")
command = [{str(STUB)!r}, "--pasture-record", str(record), sys.executable, "-c", {RECORDED!r}]
subprocess.run(command, pass_fds=[record], start_new_session=sys.argv[1] == "session")
"""


@pytest.mark.parametrize("group", ["session", "same"])
def test_what_is_recorded_ends_without_a_word_when_its_starter_is_killed(group: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, group], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        assert starter.stderr is not None
        assert starter.stdout.readline() == b"ready\n"
        starter.kill()
        assert starter.stderr.read() == b"", "ends once no process has it open"
