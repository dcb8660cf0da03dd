"""What `pasture doctor` reads of threads, pools and children, on processes made for it."""

import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from pasture.errors import UsageError
from pasture.proc import tree
from pasture.proc.maps import read_maps
from pasture_tools.doctor.notes import Notes
from pasture_tools.doctor.threads import read_threads
from pasture_tools.proc.sampler import sample_tree
from pasture_tools.top.watch import Watch

pytestmark = pytest.mark.once
PROC = Path("/proc")


@contextmanager
def running(program):
    """Run a program until it prints a line; it ends when its input does."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        process.communicate()


THREADS = """
import os, sys, threading, time
def run():
    while True:
        sum(range(10_000))
def start(name, target, *args):
    threading.Thread(target=target, args=args, name=name, daemon=True).start()
start("waits", time.sleep, 99)
start("runs", run)
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
start("later", time.sleep, 99)
print(threading.get_native_id(), flush=True)
sys.stdin.read()
"""


def threads_of(pid):
    mappings = read_maps(pid, PROC)
    return read_threads(pid, tree.forked_workers(pid), mappings, Notes(), PROC)


def test_threads_are_distinguished_by_when_they_began_and_whether_they_wait():
    with running(THREADS) as pid:
        threads = threads_of(pid)
    assert [thread.after_fork for thread in threads] == [False, False, True]
    assert [thread.waits for thread in threads][0::2] == [True, True]
    assert not threads[1].waits
    assert threads[0].is_python and threads[0].package == ""


NATIVE = """
import numpy, sys
a = numpy.ones((400, 400))
a @ a
print(flush=True)
sys.stdin.read()
"""


def test_threads_of_native_code_are_named_by_the_package_that_started_them():
    pytest.importorskip("numpy")
    with running(NATIVE) as pid:
        threads = threads_of(pid)
    if not threads:
        pytest.skip("numpy computes without threads here")
    assert {thread.package.split()[0] for thread in threads} == {"numpy"}
    assert not any(thread.is_python for thread in threads)


def test_children_that_were_started_anew_are_counted_as_such():
    program = (
        "import multiprocessing, sys, time\n"
        "multiprocessing.get_context('spawn').Process(target=time.sleep, args=(99,), daemon=True)"
        ".start()\nprint(flush=True)\nsys.stdin.read()\n"
    )
    with running(program) as pid:
        deadline = time.monotonic() + 300
        while not tree.spawned_workers(pid) and time.monotonic() < deadline:
            time.sleep(0.02)  # the child is forked, and becomes another program a moment later
        [worker] = tree.spawned_workers(pid)
        assert tree.forked_workers(pid) == ()
        assert pid in tree.find_masters()
        assert [row.role for row in Watch(pid).look()] == ["master", "worker"]
        sample = sample_tree(pid)
        assert sample is not None and [found.pid for found in sample.workers] == [worker]
        assert tree.master_of(worker, forked_only=False) == pid
        assert tree.master_of(worker) is None  # explain compares pages that a fork shares


def test_a_process_that_is_no_python_is_an_error_of_the_call():
    from pasture_tools.doctor.evidence import gather

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        with pytest.raises(UsageError, match="does not run Python"):
            gather(process.pid)
        process.stdin.close()
