"""Commands end when they are asked to, at any moment, and without a traceback of pasture's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

TIMEOUT_S = 40  # of a machine under load; a command that does not end is killed then
MOMENTS_S = (0.3, 1.0, 3.0)
COMMANDS = {
    "try": ("try", "shop:app", "--requests", "1000000"),
    "doctor": ("doctor", "--wait", "60", "--", "sleep", "600"),
    "image": ("image", "build", "-o", "x.img", "--preload", "asyncio", "--preload", "slow"),
    "metrics": ("metrics", "--port", "0", "PID"),
    "top": ("top", "--once", "--interval", "600", "PID"),
}


def _ended(process: subprocess.Popen[str], number: signal.Signals) -> str | None:
    """What a process has printed that ends by a signal; None if it does not.

    Python drops the exception of a signal that comes in a destructor: the second one counts then.
    """
    for _ in range(2):
        process.send_signal(number)
        try:
            return process.communicate(timeout=TIMEOUT_S)[0]
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_whenever_it_is_asked_to(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    (tmp_path / "shop.py").write_text(
        "def app(environ, start):\n    start('200 OK', [])\n    return [b'x']\n"
    )
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(600)\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [str(os.getpid()) if word == "PID" else word for word in COMMANDS[command]]
    for moment_s in MOMENTS_S:
        with subprocess.Popen(
            [sys.executable, "-m", "pasture", *words],
            cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            time.sleep(moment_s)
            said = _ended(process, number)
        assert said is not None, f"{command} did not end after {moment_s} s"
        # Before the first line of pasture is run, a traceback is the interpreter's.
        assert "Traceback" not in said or "init_import_site" in said, said[-3000:]
        assert process.returncode != 0
