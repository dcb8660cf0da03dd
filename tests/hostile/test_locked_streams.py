"""A daemon thread holds the lock of a file, or of a stream of C, when its process ends."""

import os
import signal
import subprocess
import sys

import pytest

TIMEOUT_S = 300

PROGRAM = """
import os, select, sys, threading, time
import pasture
pid = os.fork() if {parent_itself} else 0
pasture.seal({policy!r})
pid = os.fork() if not {parent_itself} else pid
if pid == 0:
    stream = {stream}
    def fill():
        while True: stream.write({text}); stream.flush()
    threading.Thread(target=fill, daemon=True).start()
    while select.select([], [1], [], 0)[1]: time.sleep(0.01)  # until the pipe is full: no one reads
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
    [("stock", False), ("seal", False), ("seal", True)],
    ids=["stock", "sealed parent's child", "sealed parent itself"],
)
def test_the_process_ends(tmp_path, policy, parent_itself):
    """As it does unsealed: at its end CPython gives up on a lock after a second."""
    processes = {
        stream: start(tmp_path / stream, policy, parent_itself, *how)
        for stream, how in STREAMS.items()
    }
    try:
        for stream, process in processes.items():
            assert process.wait(TIMEOUT_S) == 0, stream
            assert (tmp_path / stream / "ended").read_text() not in ("", "0"), stream
    except subprocess.TimeoutExpired:
        pytest.fail(f"{stream}: the child waits for a lock that a daemon thread holds")
    finally:
        for process in processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


INHERITED = """
import os, sys, threading
import pasture
below, above = os.pipe()
stuck = open(above, "w")
threading.Thread(target=lambda: stuck.write("x" * 1_000_000), daemon=True).start()
while not pasture.seal().sealed: pass  # the thread is not in the kernel yet
pid = os.fork()
if pid == 0:
    print("the child's", end="")
    sys.exit(0)
print(os.waitpid(pid, 0)[1], flush=True)
os._exit(0)
"""


def test_a_file_that_a_thread_of_the_parent_keeps_locked_does_not_keep_a_child(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INHERITED],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert (done.stdout, done.stderr) == ("the child's0\n", "")


LOST = """
import os, select, sys, threading, time
import pasture
from pasture.sealing import exit
exit.LOCK_LIMIT_S = 0.1
pasture.seal()
pid = os.fork()
if pid == 0:
    stuck = {stuck}
    threading.Thread(target=lambda: stuck.write("x" * 1_000_000), daemon=True).start()
    kept = open("kept", "w"); kept.write("all")
    while exit.native().stream_lock(stuck.buffer) == 0: time.sleep(0.01)
    sys.exit({status})
open("ended", "w").write(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
os._exit(0)
"""


@pytest.mark.once
@pytest.mark.parametrize(
    ("stuck", "status", "expected"),
    [
        ("open(os.pipe()[1], 'w')", 0, 120),
        ("open(os.pipe()[1], 'w')", 3, 3),
        ("sys.stdout", 3, 120),
    ],
    ids=["file", "file, status of its own", "stdout"],
)
def test_data_that_a_thread_keeps_from_being_written_is_no_success(
    tmp_path, stuck, status, expected
):
    program = LOST.format(stuck=stuck, status=status)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,  # not read
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.wait(TIMEOUT_S) == 0
        _, errors = process.communicate()
    assert (tmp_path / "ended").read_text() == str(expected)
    assert errors.startswith("pasture: a thread keeps <_io.TextIOWrapper name=")
    assert errors.count("locked at the exit: it was not flushed\n") == 1
    assert (tmp_path / "kept").read_text() == "all"  # the others have their turn


OF_C = """
import ctypes, os, sys, threading, time
import pasture
from pasture.sealing import exit
exit.LOCK_LIMIT_S = 0.1
pasture.seal()
pid = os.fork()
if pid == 0:
    c = ctypes.CDLL(None)
    c.fdopen.restype = ctypes.c_void_p
    def stream(descriptor, mode):
        return ctypes.c_void_p(c.fdopen(descriptor, mode))
    def hold(stream, work, *args):
        threading.Thread(target=work, args=args, daemon=True).start()
        while c.ftrylockfile(stream) == 0:
            c.funlockfile(stream)
            time.sleep(0.01)
    free = stream(os.open("free", os.O_WRONLY | os.O_CREAT), b"w")
    c.fputs(b"all", free)
    below, above = os.pipe()
    {work}
    sys.exit(0)
open("ended", "w").write(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
os._exit(0)
"""

READS = """
    held = stream(below, b"r")
    hold(held, c.fgets, ctypes.create_string_buffer(9), 9, held)
"""
WRITES = """
    held = stream(above, b"w")
    hold(held, c.fwrite, b"x" * 1_000_000, 1, 1_000_000, held)
"""
AT_ONCE = """
    exit.native().exit_process({status}, 0.1)
"""
READ_LATE = """
    os.set_blocking(above, False)
    try:
        while True: os.write(above, b"x" * 4096)
    except BlockingIOError: os.set_blocking(above, True)
    c.fputs(b"the end", stream(above, b"w"))
    if os.fork():
        os.close(below)
        sys.exit(0)  # for which the other one waits: it has the only end to read from
    os.close(above)
    time.sleep(1)
    with open(below, "rb") as late: read = late.read()
    open("late", "wb").write(read.strip(b"x"))
    os._exit(0)
"""


def end_with_streams_of_c(folder, work):
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", OF_C.replace("    {work}\n", work)],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _, errors = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail("the child waits for the lock of a stream of C")
    assert (folder / "free").read_text() == "all"
    return int((folder / "ended").read_text()), errors


def test_a_thread_that_reads_a_stream_of_c_does_not_keep_the_process(tmp_path):
    assert end_with_streams_of_c(tmp_path, READS) == (0, "")


def test_a_stream_of_c_that_a_thread_is_writing_to_is_named_and_left_out(tmp_path):
    status, errors = end_with_streams_of_c(tmp_path, WRITES)
    assert status == 120
    assert errors.startswith("pasture: a thread keeps a stream of C (descriptor ")
    assert errors.endswith(") locked at the exit: it was not flushed\n")


@pytest.mark.once
@pytest.mark.parametrize(("status", "expected"), [(0, 120), (3, 3)])
def test_a_process_that_ends_at_once_says_so_by_its_status(tmp_path, status, expected):
    work = WRITES + AT_ONCE.format(status=status)
    assert end_with_streams_of_c(tmp_path, work)[0] == expected


@pytest.mark.once
def test_a_status_of_its_own_stays(tmp_path):
    assert end_with_streams_of_c(tmp_path, WRITES + "    sys.exit(3)\n")[0] == 3


@pytest.mark.once
def test_a_slow_reader_of_a_stream_of_c_gets_all_of_it(tmp_path):
    assert end_with_streams_of_c(tmp_path, READ_LATE) == (0, "")
    assert (tmp_path / "late").read_bytes() == b"the end"
