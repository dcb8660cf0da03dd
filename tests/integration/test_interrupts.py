"""Commands end when they are asked to, at any moment, and without a traceback of pasture's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

IS_LONG = "PASTURE_LONG" in os.environ
BOTH = (signal.SIGINT, signal.SIGTERM)
MOMENTS_S = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2, 4)
ENDS = tuple((moment_s, number) for moment_s in MOMENTS_S for number in BOTH)
SOME_ENDS = ((0.1, signal.SIGTERM), (0.5, signal.SIGINT), (3, signal.SIGTERM))
"""After the start; all with `make test-commands`, on an otherwise idle machine."""
TIMEOUT_S = 2.0 if IS_LONG else 300.0  # the latter of a machine under load
NOT_OURS = (
    *("init_import_site", "<frozen site>", "<frozen runpy>", "bin/pasture"),
    "while calling weakref callback",
)
"""In a traceback from before the first line of pasture is run, or where the interpreter ignores
what is raised: it is the interpreter's own."""
COMMANDS = {
    "try": ("try", "shop:app", "--requests", "1000000"),
    "doctor": ("doctor", "--wait", "60", "--", "sleep", "600"),
    "image": ("image", "build", "-o", "x.img", "--preload", "asyncio", "--preload", "slow"),
    "metrics": ("metrics", "--port", "0", "PID"),
    "top": ("top", "--once", "--interval", "600", "PID"),
    "explain": ("explain", "--record", "60", "PID"),
    "run": ("run", "gunicorn", "shop:app", "-b", "127.0.0.1:0"),
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


def _left(mark: str) -> list[str]:
    """Processes that a command has left, after a moment in which a guard may end them."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark.encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_text())
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.05)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_whenever_it_is_asked_to(tmp_path: Path, command: str) -> None:
    (tmp_path / "shop.py").write_text(
        "def app(environ, start):\n    start('200 OK', [])\n    return [b'x']\n"
    )
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(600)\n")
    (tmp_path / "temporary").mkdir()
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path / "temporary")}
    words = [str(os.getpid()) if word == "PID" else word for word in COMMANDS[command]]
    before = {*tmp_path.rglob("*")}
    for moment_s, number in ENDS if IS_LONG else SOME_ENDS:
        with subprocess.Popen(
            [sys.executable, "-m", "pasture", *words],
            cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            time.sleep(moment_s)
            said = _ended(process, number)
        assert said is not None, f"{command} did not end after {moment_s} s"
        traced = "Traceback" in said and not any(one in said for one in NOT_OURS)
        assert not traced, f"after {moment_s} s: {said[-3000:]}"
        assert process.returncode != 0 or command == "run"
        assert _left(environ["TMPDIR"]) == []
        left = {*tmp_path.rglob("*")} - before
        assert {one for one in left if "__pycache__" not in one.parts} == set(), said
