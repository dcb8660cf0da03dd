"""A sealed child ends as an unsealed one does: status, output, and functions at exit.

The oracle is CPython itself: the same program without pasture.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.interpreter

STDOUT_LOST = 120

PROGRAMS = Path(__file__).parent.parent / "programs"
FEW_WAYS = ["fail", "exit_at_once", "interrupted", "run_to_the_end"]


def ways():
    source = (PROGRAMS / "exit_ways.py").read_text()
    defined = re.findall(r"^def (\w+)\(\)", source, re.MULTILINE)
    codes = re.findall(r'^            "(\w+)": ', source, re.MULTILINE)
    return sorted({*defined, *(f"exit_with_{code}" for code in codes)})


def look(policy, file, *, ways=FEW_WAYS, launch=("exit_ways.py",)):
    """What a child that ends in each of some ways looks like from outside, and its parent's end.

    Returns:
        Dict of way, or "parent", to (output, errors); a child's status is in the output.
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", *launch, policy, str(file), *ways],
        cwd=PROGRAMS,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outputs, errors = parts_of(done.stdout), parts_of(done.stderr)
    assert list(outputs) == list(errors) == [*ways, "parent"]
    assert all("child ended with" in outputs[way] for way in ways)
    return {way: (output, comparable(errors[way], output)) for way, output in outputs.items()}


def parts_of(stream):
    _, *parts = re.split(r"\n--- (\w+)\n", stream)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def comparable(errors, output):
    """Where a stream is lost, CPython's wording differs from version to version, so only the
    status counts."""
    lost = f"child ended with {STDOUT_LOST << 8}" in output
    return "" if lost else re.sub("0x[0-9a-f]+", "ADDRESS", errors)


@dataclass(frozen=True)
class Runs:
    """Runs of all ways with and without pasture, and what is left in files that stayed open."""

    plain: dict[str, tuple[str, str]]
    sealed: dict[str, tuple[str, str]]
    plain_file: Path
    sealed_file: Path


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exit")
    plain, sealed = folder / "plain", folder / "sealed"
    return Runs(look("plain", plain, ways=ways()), look("seal", sealed, ways=ways()), plain, sealed)


def test_a_sealed_child_ends_as_without_pasture_in_each_way(runs):
    assert runs.sealed == runs.plain


def test_a_file_left_open_holds_the_same(runs):
    assert runs.sealed_file.read_text() == runs.plain_file.read_text() != ""


@pytest.mark.parametrize("policy", ["dismiss", "freeze"])
def test_so_it_does_under_other_policies(policy, runs, tmp_path):
    others = look(policy, tmp_path / "unused")
    assert others == {way: runs.plain[way] for way in others}


def test_what_a_file_left_open_holds_is_written_where_nothing_is_sealed_too(runs, tmp_path):
    look("dismiss", tmp_path / "left", ways=["leave_a_file_open"])
    assert (tmp_path / "left").read_text() == runs.plain_file.read_text() != ""


@pytest.mark.parametrize(
    "launch",
    [("-m", "exit_ways"), ("-c", "import runpy; runpy.run_path('exit_ways.py', None, '__main__')")],
    ids=["module", "command"],
)
def test_it_does_not_matter_how_the_program_was_started(launch, tmp_path):
    plain, sealed = (look(policy, tmp_path / policy, launch=launch) for policy in ("plain", "seal"))
    assert sealed == plain


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
