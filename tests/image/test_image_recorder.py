"""The recorder of a build ends with the process that started it, and ends what it records."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from images import STUB

pytestmark = [pytest.mark.once, pytest.mark.integration]

RECORDED = "import os\nprint('ready', flush=True)\nwhile True: os.stat('/')\n"
STARTER = f"""\
import os, subprocess, sys
record = os.memfd_create("record")
command = [{str(STUB)!r}, "--pasture-record", str(record), sys.executable, "-c", {RECORDED!r}]
subprocess.run(command, pass_fds=[record], start_new_session=sys.argv[1] == "session")
"""


@pytest.mark.parametrize("group", ["session", "same"])
def test_what_is_recorded_ends_without_a_word_when_its_starter_is_killed(group: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, group], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        assert starter.stderr is not None
        assert starter.stdout.readline() == b"ready\n"
        starter.kill()
        assert starter.stderr.read() == b"", "ends once no process has it open"


FILTERED = Path(__file__).with_name("filtered.py")
LOOKS = """
import ctypes, mmap, os, signal
call = ctypes.CDLL(None).syscall
STAT, LSTAT, IOCTL, OPENAT, PRCTL, SECCOMP = 4, 6, 16, 257, 157, 317
status = ctypes.create_string_buffer(256)
os.chdir("/")
os.access("by-a-relative-path", 0)
folder = os.open("/usr", os.O_RDONLY)
os.access("by-a-descriptor", 0, dir_fd=folder)
os.listdir(folder)
os.fstat(folder)
os.lstat("/proc/self")
call(STAT, b"/by-an-old-call", status)
call(LSTAT, b"/by-an-old-call", status)
call(IOCTL, 0, 0x1260, status)  # of block devices
pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
at = ctypes.addressof(ctypes.c_char.from_buffer(pages))
end = at + mmap.PAGESIZE
ctypes.CDLL(None).mprotect(ctypes.c_void_p(end), mmap.PAGESIZE, 0)
ctypes.memmove(end - 7, b"/whole\\0", 7)
call(STAT, ctypes.c_void_p(end - 7), status)
ctypes.memmove(end - 5, b"/half", 5)
call(STAT, ctypes.c_void_p(end - 5), status)
call(OPENAT, -100, ctypes.c_void_p(1), 0)
call(OPENAT, 999, b"of-no-folder", 0)
os.access("/" + "long/" * 1000, 0)
for option in (15, 38, 22):  # PR_SET_NAME, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
    call(PRCTL, option, b"name" if option == 15 else int(option == 38), 0, 0, 0)
call(SECCOMP, 9, 0, 0)
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(3)
assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
os.kill(child, signal.SIGCONT)
print(os.WEXITSTATUS(os.waitpid(child, 0)[1]))
"""


def recorded(*filters: str) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """What a program prints, and the calls that are recorded of it with their paths."""
    record = os.memfd_create("record")
    words = [word for name in filters for word in (sys.executable, str(FILTERED), name)]
    command = [*words, str(STUB), "--pasture-record", str(record), sys.executable, "-c", LOOKS]
    done = subprocess.run(command, pass_fds=[record], capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    with open(record, "rb") as file:  # noqa: PTH123
        file.seek(0)
        rows = [row.split(b"\t") for row in file.read().split(b"\0")[:-1]]
    own = b"/proc/%b/"  # by its number
    return done.stdout, [(row[1], row[-1].replace(own % row[0], b"/proc/self/")) for row in rows]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64")
def test_what_a_program_and_its_children_look_at_is_recorded() -> None:
    said, calls = recorded()
    assert said == b"3\n"
    for expected in (
        (b"access", b"//by-a-relative-path"),
        (b"access", b"/usr/by-a-descriptor"),
        (b"list", b"/usr"),
        (b"stat", b"/proc/self"),
        (b"stat", b"/by-an-old-call"),
        (b"lstat", b"/by-an-old-call"),
        (b"stat", b"/whole"),
        (b"stat", b"/half"),
        (b"open", b"of-no-folder"),
        (b"access", b"/" + (b"long/" * 1000)[:4094]),
    ):
        assert any(call == expected for call in calls), expected
    assert [name for name, _ in calls].count(b"confine") == 3
    assert recorded("close_range") == (said, calls)
    unread = recorded("process_vm_readv")
    assert (unread[0], b"blind" in dict(unread[1])) == (said, True)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64")
@pytest.mark.parametrize("refused", ["seccomp", "listener"])
def test_what_cannot_be_recorded_is_not_run(refused: str) -> None:
    command = [sys.executable, FILTERED, refused]
    command += [STUB, "--pasture-record", "1", "/bin/echo", "ran"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=300)
    assert done.stdout == b""
    assert b"cannot be recorded: seccomp" in done.stderr
    done = subprocess.run([*command[3:-2], "/none"], capture_output=True, check=False, timeout=300)
    assert b"cannot be recorded: /none: No such file" in done.stderr
