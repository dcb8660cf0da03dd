"""A daemon thread that holds the lock of stdout, or of a file, when its process ends."""

import os
import signal
import subprocess
import sys

import pytest

PATIENCE_S = 15

PROGRAM = """
import os, sys, threading, time
import pasture
pid = os.fork() if {parent_itself} else 0
pasture.seal({policy!r})
pid = os.fork() if not {parent_itself} else pid
if pid == 0:
    stream = {stream}
    def fill():
        while True: stream.write({text}); stream.flush()
    threading.Thread(target=fill, daemon=True).start()
    time.sleep(0.5)  # by now the pipe is full, and nobody reads
    sys.exit(3)
_, status = os.waitpid(pid, 0)
open("ended", "w").write(str(status))
os._exit(0)
"""

STREAMS = {
    "stdout": ("sys.stdout", "'x' * 100_000"),
    "stdout's bytes": ("sys.stdout.buffer", "b'x' * 100_000"),
    "a file left open": ("os.fdopen(os.dup(1), 'w')", "'x' * 100_000"),
}


def start(folder, policy, parent_itself, name, text):
    program = PROGRAM.format(policy=policy, parent_itself=parent_itself, stream=name, text=text)
    folder.mkdir()
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
    )


@pytest.mark.once
@pytest.mark.parametrize(
    ("policy", "parent_itself"),
    [("stock", False), ("seal", False), ("seal", True), ("dismiss", False)],
    ids=["stock", "sealed parent's child", "sealed parent itself", "dismissed"],
)
def test_the_process_ends(tmp_path, policy, parent_itself):
    """As it does unsealed: at its end CPython gives up on a lock after a second."""
    processes = {
        stream: start(tmp_path / stream, policy, parent_itself, *how)
        for stream, how in STREAMS.items()
    }
    try:
        for stream, process in processes.items():
            assert process.wait(PATIENCE_S) == 0, stream
            assert (tmp_path / stream / "ended").read_text() not in ("", "0"), stream
    except subprocess.TimeoutExpired:
        pytest.fail(f"{stream}: the child waits for a lock that a daemon thread holds")
    finally:
        for process in processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


LIFTED = """
import signal, threading
from pasture import _native
signal.signal(signal.SIGALRM, print)
signal.pthread_sigmask(signal.SIG_BLOCK, {mask})
before = signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGALRM)
signal.alarm(100)
threading.Thread(target=threading.Event().wait, daemon=True).start()
_native.limit_exit(3, 50)
assert signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
assert signal.alarm(50) <= 50
_native.lift_exit_limit()
assert (signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGALRM)) == before
assert 50 < signal.alarm(0) <= 100
"""


@pytest.mark.parametrize("mask", ["(signal.SIGALRM, signal.SIGUSR1)", "()"])
def test_sigalrm_is_as_before_once_the_limit_is_lifted(mask):
    program = LIFTED.format(mask=mask)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
