"""The server's own life: limits, shortage, orders from elsewhere, and what it leaves behind."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_zygote_server import connected
from zygotes import TIMEOUT_S, Zygotes

from pasture_zygote import protocol

pytestmark = [pytest.mark.once, pytest.mark.integration]

HANGS = '''\
import os, pathlib, subprocess, sys, time
note = pathlib.Path(__file__).with_name("pids").open("a")
daemon = """
import os, time
pid = os.fork()
if pid == 0:
    os.setsid()
    time.sleep(1e6)
print(pid, flush=True)
"""
sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e6)"], close_fds=True)
subprocess.run([sys.executable, "-c", daemon], stdout=note)
print(os.getpid(), sleeper.pid, "complete", file=note, flush=True)
if HANGS: time.sleep(1e6)
'''


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def preloading(zygotes: Zygotes, folder: Path, hangs: bool) -> subprocess.Popen[bytes]:
    """A start that has come to where its module has started processes."""
    (folder / "leaves_processes.py").write_text(HANGS.replace("HANGS", str(hangs)))
    zygotes.environ["PYTHONPATH"] = str(folder)
    words = ["-m", "pasture", "zygote", "start", "--preload", "leaves_processes", "--name", "x"]
    starting = subprocess.Popen([sys.executable, *words], env=zygotes.environ, stderr=-3)
    pids = folder / "pids"
    wait_until(lambda: pids.exists() and "complete" in pids.read_text())
    return starting


def started_pids(folder: Path) -> list[int]:
    words = (folder / "pids").read_text().split()
    return [int(word) for word in words if word.isdecimal()]


@pytest.mark.parametrize("way", ["stop", "terminate", "drop"])
def test_nothing_stays_of_an_import_that_hangs(
    own_zygotes: Zygotes, tmp_path: Path, way: str
) -> None:
    own_zygotes.pasture("start", "--name", "other")
    server = own_zygotes.pid()
    starting = preloading(own_zygotes, tmp_path, hangs=True)
    pids = started_pids(tmp_path)
    assert len(pids) == 3 and all(map(is_there, pids))
    if way == "terminate":
        os.kill(server, signal.SIGTERM)
    else:
        own_zygotes.pasture("stop", *(("--name", "x") if way == "drop" else ()))
    wait_until(lambda: not any(map(is_there, pids)))
    starting.kill()
    starting.wait()
    assert is_there(server) == (way == "drop") or way != "drop"


def test_children_of_a_preloaded_module_end_with_its_build(
    own_zygotes: Zygotes, tmp_path: Path
) -> None:
    starting = preloading(own_zygotes, tmp_path, hangs=False)
    starting.wait(TIMEOUT_S)
    wait_until(lambda: not any(map(is_there, started_pids(tmp_path))))


def test_a_server_whose_folder_was_removed_ends(own_zygotes: Zygotes) -> None:
    own_zygotes.pasture("start", "--name", "x")
    server = own_zygotes.pid()
    shutil.rmtree(own_zygotes.folder / "pasture")
    wait_until(lambda: not is_there(server))
    own_zygotes.pasture("start", "--name", "x")
    assert "served" in own_zygotes.why("-c", "pass")


def test_a_long_environment_and_a_long_status_are_no_error(own_zygotes: Zygotes) -> None:
    own_zygotes.environ |= {f"LONG_{i}": "x" * 100_000 for i in range(8)}
    own_zygotes.pasture("start", "--preload", "json", "--name", "x")
    answer = b""
    for i in range(60):
        with connected(own_zygotes) as connection:
            fields = {"name": f"{i}" * 40, "base": "x", "preload": ["missing" * 400]}
            fields |= {"python": sys.executable, "options": [], "environ": {}}
            protocol.send(connection, protocol.order({"do": "start", **fields}))
    wait_until(lambda: len(own_zygotes.status()) > 60)
    with connected(own_zygotes) as connection:
        protocol.send(connection, protocol.order({"do": "status"}))
        answer = protocol.receive(connection)
    assert len(answer) > 1 << 16


def test_beside_a_stopped_server_the_interpreter_runs_at_once(own_zygotes: Zygotes) -> None:
    own_zygotes.pasture("start", "--name", "x")
    server = own_zygotes.pid()
    os.kill(server, signal.SIGSTOP)
    stat = Path(f"/proc/{server}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    try:
        assert own_zygotes.why("-c", "pass").endswith("the zygote's server is stopped")
    finally:
        os.kill(server, signal.SIGCONT)
    assert "served" in own_zygotes.why("-c", "pass")


def test_a_server_that_had_no_descriptors_serves_again(own_zygotes: Zygotes) -> None:
    own_zygotes.pasture("start", "--name", "x")
    server = own_zygotes.pid()
    limits = resource.prlimit(server, resource.RLIMIT_NOFILE)
    try:
        resource.prlimit(server, resource.RLIMIT_NOFILE, (3, limits[1]))
        assert own_zygotes.run("-c", "print(1)").out == b"1\n"
    finally:
        resource.prlimit(server, resource.RLIMIT_NOFILE, limits)
    wait_until(lambda: "served" in own_zygotes.why("-c", "pass"))


def test_an_order_of_a_process_with_a_lower_hard_limit_is_refused(own_zygotes: Zygotes) -> None:
    own_zygotes.pasture("start", "--name", "x")

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (4000, 4000))

    words = ["-m", "pasture", "zygote", "start", "--preload", "decimal", "--name", "y"]
    done = own_zygotes.run(*words, program=Path(sys.executable), preexec_fn=lower)
    assert (done.status, b"a lower hard limit: max processes" in done.err) == (17, True)
    environ = {**own_zygotes.environ, "PASTURE_ZYGOTE_VERBOSE": "1"}
    served = own_zygotes.run("-c", "pass", env=environ, preexec_fn=lower)
    assert b"served" in served.err  # a program keeps its own limits
    assert "y" not in own_zygotes.status()
