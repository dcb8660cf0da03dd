"""`pasture size PID`: how many workers fit, from a program that runs."""

import json
import subprocess
import sys

import pytest
from running import pasture

pytestmark = pytest.mark.once

HELD_MB = 40
PROGRAM = f"""
import multiprocessing, sys, time
def work(barrier):
    held = b"x" * {HELD_MB * 1_000_000}
    barrier.wait()
    time.sleep(60)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    barrier = context.Barrier(3)
    workers = [context.Process(target=work, args=(barrier,), daemon=True) for _ in range(2)]
    for one in workers: one.start()
    barrier.wait()
    print(workers[0].pid, flush=True)
    sys.stdin.read()
"""


def size(*words):
    return pasture("size", *words)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_largest_worker_that_runs_decides(tmp_path, method):
    app = tmp_path / "app.py"
    app.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, app, method], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        worker = int(program.stdout.readline())
        given = ("--limit", "1GB", "--cores", "64", "--json", "-")
        found = [json.loads(size(pid, *given).stdout) for pid in (program.pid, worker)]
        given = size(program.pid, "--private", "40M")
        program.stdin.close()
    assert found[0]["by_memory"] == found[1]["by_memory"]
    # A worker has what it holds, and no more than an interpreter besides.
    assert 900 // (HELD_MB + 30) - 2 <= found[0]["by_memory"] <= 900 // HELD_MB
    assert given.returncode == 2 and "PID has the figures of a worker" in given.stderr


def test_a_program_without_workers_has_no_figures():
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True
    ) as program:
        done = size(program.pid)
        program.stdin.close()
    assert done.returncode == 2 and f"no worker of {program.pid} was found" in done.stderr
