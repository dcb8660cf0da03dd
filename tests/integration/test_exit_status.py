"""A sealed child ends as an unsealed one does: status, output, and functions at exit.

The oracle is CPython itself: the same program without pasture.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

STDOUT_LOST = 120

PROGRAMS = Path(__file__).parent.parent / "programs"
FEW_WAYS = ["fail", "exit_at_once", "interrupted", "run_to_the_end"]


def ways():
    source = (PROGRAMS / "exit_ways.py").read_text()
    defined = re.findall(r"^def (\w+)\(\)", source, re.MULTILINE)
    codes = re.findall(r'^            "(\w+)": ', source, re.MULTILINE)
    return sorted({*defined, *(f"exit_with_{code}" for code in codes)})


def run(policy, way, *, launch=("exit_ways.py",), file="unused"):
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", *launch, policy, way, str(file)],
        cwd=PROGRAMS,
        capture_output=True,
        text=True,
        timeout=60,
    )


def look(done):
    """What a run looks like from outside. Where a stream is lost, CPython's wording for it
    differs from version to version, so only the status counts."""
    lost = f"child ended with {STDOUT_LOST << 8}" in done.stdout
    errors = "" if lost else re.sub("0x[0-9a-f]+", "ADDRESS", done.stderr)
    return done.returncode, done.stdout, errors


@pytest.mark.parametrize("way", ways())
def test_a_sealed_child_ends_as_without_pasture(way, tmp_path):
    sealed = run("seal", way, file=tmp_path / "sealed")
    assert look(sealed) == look(run("plain", way, file=tmp_path / "plain"))
    if way == "leave_a_file_open":
        assert (tmp_path / "sealed").read_text() == (tmp_path / "plain").read_text() != ""


@pytest.mark.parametrize("way", FEW_WAYS)
@pytest.mark.parametrize("policy", ["dismiss", "freeze"])
def test_so_it_does_under_other_policies(way, policy):
    assert look(run(policy, way)) == look(run("plain", way))


def test_what_a_file_left_open_holds_is_written_where_nothing_is_sealed_too(tmp_path):
    run("dismiss", "leave_a_file_open", file=tmp_path / "left")
    run("plain", "leave_a_file_open", file=tmp_path / "plain")
    assert (tmp_path / "left").read_text() == (tmp_path / "plain").read_text() != ""


@pytest.mark.parametrize("way", FEW_WAYS)
@pytest.mark.parametrize(
    "launch",
    [("-m", "exit_ways"), ("-c", "import runpy; runpy.run_path('exit_ways.py', None, '__main__')")],
    ids=["module", "command"],
)
def test_it_does_not_matter_how_the_program_was_started(launch, way):
    assert look(run("seal", way, launch=launch)) == look(run("plain", way, launch=launch))


def test_finalization_is_left_out_in_the_child_and_kept_in_the_parent():
    program = """
import os, sys, pasture

class Witness:
    def __del__(self, write=os.write, getpid=os.getpid):
        write(1, b"finalized %d\\n" % getpid())

pasture.seal()
sys.witness = Witness()
child = os.fork()
if child:
    os.waitpid(child, 0)
    print("parent", os.getpid(), flush=True)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    parent = out.split()[1]
    assert out == f"parent {parent}\nfinalized {parent}\n"
