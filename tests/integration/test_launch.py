"""Process groups end for certain; trees of processes are seen as they are."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from running import TIMEOUT_S

from pasture.errors import ServerFailed
from pasture.proc import tree
from pasture_tools.launch.session import Group, environment
from pasture_tools.proc import sampler
from pasture_tools.trial.run import stop_and_measure

pytestmark = [pytest.mark.integration]

FORKING = """
import os, signal, subprocess, sys, time
for _ in range(2):
    if os.fork() == 0:
        time.sleep(600)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("ready", flush=True)
time.sleep(600)
"""
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pid = os.fork()
os.setpgid(pid, pid)  # in both, whichever comes first
print("ready", flush=True)
time.sleep(600)
"""
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print("ready", flush=True)
"""
# Shares 40 MB with a child that writes to all of it at the end. Both end when they may.
SPREADING = """
import os, signal, sys, time
def wait_for(name):
    while not os.path.exists(f"FOLDER/{name}"):
        time.sleep(0.01)
pages = bytearray(40_000_000)
for i in range(0, len(pages), 4096):
    pages[i] = 1
def end(number, frame):
    if worker == 0:
        for i in range(0, len(pages), 4096):
            pages[i] = 2
        open("FOLDER/written", "w").close()
        wait_for("worker")
    else:
        os.kill(worker, signal.SIGTERM)
        os.wait()
        wait_for("master")
    os._exit(0)
signal.signal(signal.SIGTERM, end)
worker = os.fork()
if worker == 0:
    open("FOLDER/forked", "w").close()
else:
    wait_for("forked")
    print("ready", flush=True)
while True:
    time.sleep(0.1)  # a signal that comes right before a sleep is handled after it
"""


@pytest.fixture
def start(tmp_path):
    groups = []

    def start(program):
        program = program.replace("FOLDER", str(tmp_path))
        group = Group([sys.executable, "-c", program], log=tmp_path / "log")
        groups.append(group)
        deadline = time.monotonic() + TIMEOUT_S
        while "ready" not in group.log:
            assert not group.exit_code() and time.monotonic() < deadline, group.log
            time.sleep(0.02)
        return group

    yield start
    for group in groups:
        group.end()


@pytest.mark.once
def test_forked_workers_are_the_children_that_run_the_same_program(start):
    group = start(FORKING)

    workers = tree.forked_workers(group.pid)

    assert len(workers) == 2
    assert len(group.members()) == 4
    assert set(workers) < set(group.members())


@pytest.mark.once
def test_a_group_ends_with_all_that_it_started(start):
    group = start(FORKING)
    members = group.members()

    group.end()

    assert group.members() == ()
    assert not any(tree.is_running(pid) for pid in members)


@pytest.mark.once
def test_a_process_that_ignores_sigterm_and_leaves_the_group_is_killed(start):
    group = start(STUBBORN)
    members = group.members()
    assert len({os.getpgid(pid) for pid in members}) == 2

    group.end()

    assert not any(tree.is_running(pid) for pid in members)


@pytest.mark.once
def test_a_daemon_that_left_the_session_is_ended(start):
    group = start(DAEMON)
    while len(strays := group.members()) > 1 or group.exit_code() is None:
        time.sleep(0.02)  # the processes between the daemon and us are about to end
    assert len(strays) == 1
    assert os.getsid(strays[0]) != group.pid

    group.end()

    assert not tree.is_running(strays[0])


@pytest.mark.once
def test_a_group_whose_starter_is_killed_ends_with_all_that_it_started(tmp_path):
    starter = f"""
import os, sys, time
from pathlib import Path
from pasture_tools.launch.session import Group, guarded
folder = Path({str(tmp_path)!r}) / "folder"
folder.mkdir()
with guarded(folder):
    groups = [
        Group([sys.executable, "-c", program], log=Path({str(tmp_path)!r}) / str(i))
        for i, program in enumerate({[FORKING, STUBBORN, DAEMON]!r})
    ]
    while not all("ready" in group.log for group in groups):
        time.sleep(0.02)
    print(*(pid for group in groups for pid in group.members()), flush=True)
    time.sleep(600)
"""
    running = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True)
    members = [int(pid) for pid in running.stdout.readline().split()]
    running.kill()
    running.communicate()

    deadline = time.monotonic() + TIMEOUT_S
    while any(map(tree.is_running, members)) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = [pid for pid in members if tree.is_running(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(members) >= 7 and left == []
    while (tmp_path / "folder").exists():  # the test's limit of time ends this
        time.sleep(0.02)


@pytest.mark.once
def test_a_guard_heeds_no_signal_and_its_end_is_that_of_the_program(start):
    group = start(FORKING)
    guard = psutil.Process(group.pid).parent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        guard.send_signal(number)
    time.sleep(0.1)
    members = group.members()
    assert guard.is_running() and group.exit_code() is None and len(members) == 4

    guard.kill()
    while group.exit_code() is None or tree.is_running(group.pid):
        time.sleep(0.02)  # the test's limit of time ends this

    assert group.exit_code() == -signal.SIGKILL
    for pid in members:  # out of the group's reach now
        if tree.is_running(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.once
def test_an_exception_ends_the_group(tmp_path):
    with pytest.raises(KeyboardInterrupt), Group(["sleep", "600"], log=tmp_path / "log") as group:
        raise KeyboardInterrupt

    assert group.exit_code() == -15


@pytest.mark.once
def test_a_program_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ServerFailed, match="/nowhere/python"):
        Group(["/nowhere/python"], log=tmp_path / "log")


@pytest.mark.once
def test_a_wait_ends_with_what_was_waited_for(start):
    group = start(FORKING)
    group.wait_for(
        lambda: len(tree.forked_workers(group.pid)) == 2, "no workers", timeout_s=TIMEOUT_S
    )
    group.kill()
    assert group.wait(TIMEOUT_S) == -signal.SIGKILL
    group.send_signal(signal.SIGTERM)  # to no process


@pytest.mark.once
def test_a_wait_says_that_the_program_has_ended_and_what_it_printed(tmp_path):
    program = "print('no sheep here', flush=True); raise SystemExit(3)"
    with (
        Group([sys.executable, "-c", program], log=tmp_path / "log") as group,
        pytest.raises(ServerFailed, match="no herd: it ended with exit code 3") as raised,
    ):
        group.wait_for(lambda: False, "no herd", timeout_s=TIMEOUT_S)
    assert "no sheep here" in raised.value.hint


@pytest.mark.once
def test_a_wait_that_takes_too_long_is_given_up(start):
    group = start(FORKING)
    with pytest.raises(ServerFailed, match=r"no herd in 0\.2 s"):
        group.wait_for(lambda: False, "no herd", timeout_s=0.2)
    with pytest.raises(ServerFailed, match=r"did not end in 0\.1 s"):
        group.wait(0.1)
    with pytest.raises(KeyboardInterrupt):
        group.wait_for(lambda: False, "no herd", timeout_s=TIMEOUT_S, pause=_interrupt)
    assert group.exit_code() is None


def _interrupt(seconds):
    raise KeyboardInterrupt


@pytest.mark.once
def test_an_end_without_a_timeout_kills_what_ignores_signals(tmp_path):
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('ready', flush=True); time.sleep(600)"
    )
    with Group([sys.executable, "-c", program], log=tmp_path / "log") as group:
        group.wait_for(lambda: "ready" in group.log, "no start", timeout_s=TIMEOUT_S)
        group.end(polite_s=0)
    assert group.exit_code() == -signal.SIGKILL
    assert group.members() == ()


@pytest.mark.once
def test_the_environment_of_what_is_measured_has_no_pasture_around_it(monkeypatch):
    monkeypatch.setenv("PASTURE_POLICY", "seal")
    monkeypatch.setenv("LAB_SHELF", "1")
    assert "PASTURE_POLICY" not in environment({})
    assert environment({"PASTURE_POLICY": "stock"})["PASTURE_POLICY"] == "stock"
    assert "LAB_SHELF" in environment({})
    assert "LAB_SHELF" not in environment({}, without=("LAB_",))


@pytest.mark.once
def test_a_sample_has_master_and_workers_with_what_they_share(start):
    group = start(SPREADING)

    sample = sampler.sample_tree(group.pid, seconds=1.0, requests=7)

    assert sample is not None
    assert (sample.requests, len(sample.workers)) == (7, 1)
    assert sample.workers[0].memory.shared_bytes > 40_000_000
    assert sample.workers[0].memory.private_bytes < 10_000_000
    assert 40_000_000 < sample.total_pss_bytes < 70_000_000


@pytest.mark.once
def test_a_shutdown_that_unshares_memory_shows_in_its_peak(start, tmp_path):
    group = start(SPREADING)
    states = []

    def pause(seconds):
        """Each may end once it was measured for certain: at the second pause."""
        time.sleep(seconds)
        is_written = (tmp_path / "written").exists()
        states.append("master" if len(group.members()) == 1 else "worker" if is_written else "")
        if states[-1] and states.count(states[-1]) == 2:
            (tmp_path / states[-1]).touch()

    shutdown = stop_and_measure(group, pause)

    assert shutdown.by_itself
    assert group.members() == ()
    assert shutdown.peak_pss_bytes - shutdown.start_pss_bytes > 30_000_000
    assert 0 < shutdown.workers_seconds < shutdown.seconds


@pytest.mark.once
def test_a_server_that_does_not_end_is_killed_and_noted(start):
    group = start(STUBBORN)

    shutdown = stop_and_measure(group, time.sleep, timeout_s=0.2)

    assert not shutdown.by_itself
    assert group.members() == ()


def test_the_end_of_a_program_that_ends_at_once_is_seen(tmp_path, monkeypatch):
    # The guard's two lines come in one read.
    read_pid = Group._read_pid

    def read_late(group, program):
        time.sleep(0.5)
        return read_pid(group, program)

    monkeypatch.setattr(Group, "_read_pid", read_late)
    with Group(["sh", "-c", "exit 3"], log=tmp_path / "log") as group:
        assert group.wait(TIMEOUT_S) == 3
