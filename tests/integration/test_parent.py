"""Processes that end with their parent: the extension asks the kernel for it."""

import errno
import signal
import sys

import pytest
from running import completed

pytestmark = pytest.mark.once

BEGIN = """
import os, signal, sys, time
from pasture.proc import parent

class Refusing:
    def die_with_parent(self, number):
        raise OSError(int(sys.argv[2]), "refused")

if sys.argv[1] == "in a sandbox":
    parent.native = Refusing
"""


def run(program):
    return completed([sys.executable, "-c", BEGIN + program, "with the extension"])


def test_a_process_gets_the_signal_when_its_parent_ends():
    ended = run("""
own = os.getpid()
ready, is_ready = os.pipe()
if os.fork():
    os.read(ready, 1)
    os._exit(0)
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"asked to end") and os._exit(0))
parent.end_with_parent(own, signal.SIGTERM)
os.write(is_ready, b".")
time.sleep(30)
print("lives")
""")
    assert (ended.stdout, ended.stderr) == ("asked to end", "")


def test_a_process_whose_parent_has_ended_already_gets_the_signal_at_once():
    ended = run("parent.end_with_parent(os.getppid() + 1)\nprint('lives')")
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGKILL, "", "")


@pytest.mark.parametrize("error", [errno.EPERM, errno.EINVAL, errno.ENOSYS])
def test_a_process_whose_sandbox_refuses_the_signal_goes_on(error):
    program = BEGIN + "parent.end_with_parent(os.getppid())\nprint('lives')"
    command = [sys.executable, "-c", program, "in a sandbox", str(error)]
    ended = completed(command)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "lives\n", "")
