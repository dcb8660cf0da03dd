"""Some faults under load on each server: a short run of `make soak-faults`."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

TIMEOUT_S = 500  # below pytest's own
ROOT = Path(__file__).resolve().parents[2]
MODULES = {"uwsgi": "pyuwsgi", "celery": "redis"}
SERVERS = ("gunicorn", "gunicorn-refork", "uwsgi", "celery")
FAULTS = ("kill a worker", "stop a worker")
OF_A_MASTER = {"celery": ("kill all workers",)}
"""Celery ends by itself where it cannot make a pipe for a new worker; and while it is dead, Redis
may give it a task: test_celery.py kills it."""


@pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="the benchmarks are not here")
@pytest.mark.parametrize("server", SERVERS)
def test_only_what_a_killed_worker_served_is_lost_and_nothing_is_left_behind(server, tmp_path):
    pytest.importorskip(MODULES.get(server, "gunicorn"))
    command = [sys.executable, "-m", "benchmarks.soak_faults", "--server", server, "--seed", "1"]
    command += ["--every", "1", "--directory", str(tmp_path)]
    every = ("no descriptors in the master", "kill the master")
    for fault in (*FAULTS, *OF_A_MASTER.get(server, every)):
        command += ["--fault", fault]
    result = tmp_path / server / "result.json"
    code, output = run(command)
    if "Redis cannot be had" in output:
        pytest.skip(output)
    assert code == 0, f"{output}\n{result.read_text() if result.exists() else ''}"


def run(command):
    """Its status and output. It has servers and mounts, and so is ended rather than killed."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate()
    return process.returncode, output
