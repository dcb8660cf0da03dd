"""A fork that fails for want of a process, as at the limit of a user or a container."""

import os
import signal
import sys

import pytest
from generations import mold_of, refork, roles, wait_for_roles

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("small_herd")]

# Raised here, because the kernel's own limit does not bind root.
CONF = """
import errno, os
from pathlib import Path

fork = os.fork

def fork_if_allowed():
    if Path("no-process").exists():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    return fork()

os.fork = fork_if_allowed
"""

SHORTAGE = "no new worker: "
version_of_reforks = pytest.mark.skipif(
    sys.version_info[:2] != (3, 14), reason="reforks are tested on one version"
)


@pytest.fixture
def shortage(tmp_path):
    return tmp_path / "no-process"


def is_served_by(server, *workers):
    return server.get("/who")["pid"] in workers


def ends_with_two_workers_again(server, count=2):
    server.wait_for(lambda: len(server.workers()) == count, "enough processes")
    server.wait_for(lambda: is_served_by(server, *server.workers()), "an answer")
    assert "Traceback" not in server.log
    return server.stop() == 0


@version_of_reforks
def test_the_workers_that_are_left_serve_and_the_fork_is_tried_again(serve, shortage):
    server = serve(conf=CONF, options=("--refork", "1000"))
    count = len(server.workers())
    killed = server.get("/who")["pid"]
    shortage.touch()
    os.kill(killed, signal.SIGKILL)
    server.wait_until_it_logs(SHORTAGE, times=2)
    assert is_served_by(server, *server.workers())
    shortage.unlink()
    assert ends_with_two_workers_again(server, count)


@version_of_reforks
def test_a_mold_that_cannot_fork_for_now_stays_the_parent(serve, shortage):
    server = settled(serve)
    killed = min(pid for pid, (role, _) in roles(server).items() if role == "worker")
    shortage.touch()
    os.kill(killed, signal.SIGKILL)
    server.wait_until_it_logs(SHORTAGE, times=2)
    assert is_served_by(server, *server.workers())
    shortage.unlink()
    assert ends_with_two_workers_again(server, 3)
    assert "lost" not in server.log


@version_of_reforks
def test_without_a_mold_a_new_one_is_forked_when_there_is_a_process_again(serve, shortage):
    server = settled(serve)
    shortage.touch()
    mold = mold_of(server)
    worker = min(pid for pid, (role, _) in roles(server).items() if role == "worker")
    os.kill(mold, signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    server.wait_until_it_logs(SHORTAGE, times=2)
    assert is_served_by(server, *server.workers())
    shortage.unlink()
    assert ends_with_two_workers_again(server, 3)


@version_of_reforks
def test_a_reload_without_a_process_leaves_the_workers_as_they_are(serve, shortage):
    server = settled(serve)
    before = server.workers()
    shortage.touch()
    server.send(signal.SIGHUP)
    server.wait_until_it_logs("HUP failed: [Errno 11]")
    assert server.workers() == before
    shortage.unlink()
    assert server.stop() == 0


def settled(serve):
    """A server whose workers are of generation 1, and generation 0 is gone."""
    server = serve(
        *("--graceful-timeout", "10"),
        conf=CONF,
        options=("--refork", "5,1000000"),
        app="refork_app:app",
    )
    refork(server, 1)
    wait_for_roles(server, ("mold", 1), ("worker", 1), ("worker", 1))
    return server
