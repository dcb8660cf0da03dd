"""A sealed child that has no memory for one step of its end takes that step again."""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, os, sys
import pasture
file = open("written", "w")
pasture.seal()
def fails_once(place):
    owner, name = place.rsplit(".", 1)
    module, _, inner = owner.partition(":")
    owner = importlib.import_module(f"pasture.sealing.{module}")
    owner = getattr(owner, inner) if inner else owner
    plain = getattr(owner, name)
    def fails(*args, **keywords):
        setattr(owner, name, plain)
        raise MemoryError
    setattr(owner, name, fails)
if os.fork() == 0:
    file.write("whole")
    print("said")
    from pasture.sealing import exit
    fails_once(sys.argv[1])
    {"sys.exit": sys.exit, "leave": exit.leave}[sys.argv[2]](42)
print("child", os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.parametrize("end", ["sys.exit", "leave"])
@pytest.mark.parametrize(
    "place",
    [
        "exit._flush_standard_streams",
        "exit._stop_handling_signals",
        "exit._finish_open_files",
        "exit._all_unlocked",
        "open_files:LockWait.can_write",
        "open_files._parts",
        "open_files._directly_below",
        "open_files._all_below",
        "open_files._outermost_first",
        "open_files._flush",
    ],
)
def test_a_step_without_memory_is_taken_again(tmp_path, place, end):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, place, end],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["said", "child 42"]
    assert (tmp_path / "written").read_text() == "whole"
