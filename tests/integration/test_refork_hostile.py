"""A worker that has been taken over becomes a mold: its arbiter believes it nothing that counts."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from generations import assert_ends_without_a_trace, at_any_price, load, roles
from running import completed

pytestmark = pytest.mark.once

# What else a message may hold: tests/unit/refork/test_channel.py and tests/fuzz/channels.
OF_MOLDS = ("poor", "files", "twice", "flood")
OF_FORKS = ("stranger", "itself", "grandchild")


@pytest.fixture
def stranger():
    """A process of this user's that is no child of the server."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.communicate()


def start(serve, *args):
    return serve(
        *("--timeout", "3", "--graceful-timeout", "2", *args),
        options=("--refork", "5"),
        app="hostile_mold_app:app",
        env=at_any_price(),
    )


def attacks_left(server, attack):
    """Let each worker that becomes a mold attack, until the server has noticed."""
    server.wait_for(
        lambda: load(server, 6) and "refork to generation" in server.log, f"the attack {attack}"
    )


@pytest.mark.parametrize("attack", OF_MOLDS)
def test_a_mold_that_sends_what_no_mold_sends_is_ended_and_the_server_serves_on(
    serve, tmp_path: Path, attack
):
    server = start(serve)
    (tmp_path / "attack").write_text(attack)
    attacks_left(server, attack)
    assert "is killed: its mold sent an unexpected message" in server.log
    assert load(server, 30)
    server.wait_for(lambda: len(roles(server)) == 3, "two workers and the mold of generation 0")
    assert psutil.Process(server.process.pid).num_fds() < 40
    assert "Traceback" not in server.log
    assert_ends_without_a_trace(server)


@pytest.mark.parametrize("attack", OF_FORKS)
def test_only_a_new_child_of_the_arbiter_becomes_a_worker(serve, tmp_path, stranger, attack):
    server = start(serve)
    (tmp_path / "attack").write_text(f"{attack} {stranger.pid}" if attack == "stranger" else attack)
    attacks_left(server, attack)
    server.wait_until_it_logs("its mold sent an unexpected message")
    assert load(server, 30)
    server.wait_for(lambda: len(roles(server)) == 3, "two workers and the mold of generation 0")
    assert server.stop() == 0, server.log
    assert stranger.poll() is None and "Traceback" not in server.log


TERM_IN_A_HOOK = """
import os, signal, sys
from pasture import _native
from pasture.refork.mold import fork_orphan

_native.adopt_orphans()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
if fork_orphan():
    os._exit(1)  # as if there had been no signal
_, status = os.wait()
os._exit(os.waitstatus_to_exitcode(status))
"""


def test_a_signal_that_reaches_a_process_in_the_hooks_of_its_fork_ends_it():
    command = [sys.executable, "-c", TERM_IN_A_HOOK]
    done = completed(command)
    assert (done.returncode, done.stderr) == (7, "")
