"""A sealed child ends as an unsealed one does: status, output, and functions at exit.

The oracle is CPython itself: the same program without pasture.
"""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from running import completed

pytestmark = pytest.mark.interpreter

STDOUT_LOST = 120

PROGRAMS = Path(__file__).parent.parent / "programs"
FEW_WAYS = ["fail", "exit_at_once", "interrupted", "run_to_the_end"]
NOT_IN_A_POOL = ("fork", "multiprocessing")
"""A second process at the same queue: the pool waits for ever."""

BOOT_ERROR = 3
"""gunicorn's: its arbiter ends with it."""

WORKERS_ENDS = [
    "exit_by_a_property_code",
    "exit_by_getattribute",
    "exit_by_a_code_set_later",
    "exit_with_text",
    "exit_in_a_group",
    "interrupted_by_a_subclass",
    "run_atexit_functions_and_leave",
    "clear_the_atexit_functions",
    "start_a_thread_at_exit",
    "run_to_the_end",
]


def ways():
    source = (PROGRAMS / "exit_ways.py").read_text()
    defined = re.findall(r"^def (\w+)\(\)", source, re.MULTILINE)
    codes = re.findall(r'^            "(\w+)": ', source, re.MULTILINE)
    return sorted({*defined, *(f"exit_with_{code}" for code in codes)})


def look(policy, file, *, ways=FEW_WAYS, host="fork", launch=("exit_ways.py",)):
    """What a child that ends in each of some ways looks like from outside, and its parent's end.

    Returns:
        Dict of way, or "parent", to (output, errors); a child's status is in the output.
    """
    done = completed(
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            *launch,
            policy,
            host,
            str(file),
            *ways,
        ],
        cwd=PROGRAMS,
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


@pytest.mark.parametrize("host", ["nested", "process", "pool"])
def test_so_it_does_in_processes_of_multiprocessing(host, tmp_path):
    some = [way for way in ways() if host != "pool" or not any(w in way for w in NOT_IN_A_POOL)]
    plain, sealed = (
        look(policy, tmp_path / policy, ways=some, host=host) for policy in ("plain", "seal")
    )
    assert sealed == plain


def workers_that_end(tmp_path, sealed, ends, *, command):
    """Status of gunicorn, and how each worker ended by its log."""
    done = completed(
        [sys.executable, "-W", "ignore", *command],
        cwd=PROGRAMS,
        env={
            **os.environ,
            "ENDS": " ".join(ends),
            "CONTROL_SOCKET": str(tmp_path / "control"),
            "SEALED": "1" * sealed,
        },
    )
    assert ("pasture: policy seal" in done.stderr) == sealed, done.stderr
    booted = done.stderr.count("Booting worker")
    how = re.findall(r"Worker \(pid:\d+\) (?!exiting)(.*)", done.stderr)
    return done.returncode, booted, how


KEEPS_ITS_EXCEPTIONS = pytest.mark.skipif(
    sys.version_info < (3, 12),
    reason="gunicorn 23, of 3.11 here, loses what its handler of SIGCHLD raises, and hangs",
)
GUNICORN = ("-m", "gunicorn", "-c", "ending_workers.py", "ending_workers:app")


@KEEPS_ITS_EXCEPTIONS
@pytest.mark.parametrize("command", [GUNICORN, ("ending_workers.py",)], ids=["alone", "nested"])
def test_workers_of_gunicorn_end_as_without_pasture(command, tmp_path):
    plain, sealed = (
        workers_that_end(tmp_path, sealed, WORKERS_ENDS, command=command)
        for sealed in (False, True)
    )
    assert sealed == plain
    assert plain[1] >= len(WORKERS_ENDS)


@KEEPS_ITS_EXCEPTIONS
@pytest.mark.parametrize("command", [GUNICORN, ("ending_workers.py",)], ids=["alone", "nested"])
def test_gunicorn_sees_that_a_worker_could_not_boot(command, tmp_path):
    end = ["exit_by_a_class_with_a_code"]
    plain, sealed = (
        workers_that_end(tmp_path, sealed, end, command=command) for sealed in (False, True)
    )
    assert sealed == plain
    assert plain[:2] == (BOOT_ERROR, 1)


def test_a_file_left_open_holds_the_same(runs):
    assert runs.sealed_file.read_text() == runs.plain_file.read_text() != ""


def test_so_it_does_where_nothing_is_sealed(runs, tmp_path):
    others = look("freeze", tmp_path / "unused")
    assert others == {way: runs.plain[way] for way in others}


@pytest.mark.parametrize(
    "launch",
    [("-m", "exit_ways"), ("-c", "import runpy; runpy.run_path('exit_ways.py', None, '__main__')")],
    ids=["module", "command"],
)
def test_it_does_not_matter_how_the_program_was_started(launch, tmp_path):
    plain, sealed = (look(policy, tmp_path / policy, launch=launch) for policy in ("plain", "seal"))
    assert sealed == plain


@pytest.mark.parametrize("before", ["", "atexit._run_exitfuncs()"], ids=["sealed", "run by hand"])
def test_finalization_is_left_out_in_the_child_and_kept_in_the_parent(before):
    program = f"""
import atexit, os, sys, pasture

class Witness:
    def __del__(self, write=os.write, getpid=os.getpid):
        write(1, b"finalized %d\\n" % getpid())

pasture.seal()
{before}
sys.witness = Witness()
child = os.fork()
if child:
    os.waitpid(child, 0)
    print("parent", os.getpid(), flush=True)
"""
    out = completed([sys.executable, "-c", program], check=True).stdout
    parent = out.split()[1]
    assert out == f"parent {parent}\nfinalized {parent}\n"


def test_what_an_open_file_loses_on_a_full_disk_is_said():
    def said(first_line):
        source = (
            f"import os, sys\n{first_line}\nif not os.fork():\n"
            "    kept = open('/dev/full', 'w'); kept.write('x'); sys.exit(42)\n"
            "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        )
        done = completed([sys.executable, "-c", source])
        errors = done.stderr.splitlines()  # 3.15 chains the error of a second try
        return done.stdout, {one for one in errors if one.startswith(("Exception", "OSError"))}

    plain = said("")
    assert said("import pasture; pasture.seal()") == plain
    assert plain[0] == "42\n"


def test_a_child_that_seals_leaves_the_place_where_its_parent_reads(tmp_path):
    source = (
        "import os, pasture\n"
        f"file = open({str(tmp_path / 'numbers')!r}, 'wb+')\n"
        "file.writelines(b'%06d\\n' % i for i in range(5000)); file.seek(0); file.readline()\n"
        "if not os.fork(): pasture.seal(); os._exit(0)\n"
        "os.wait(); print([int(line) for line in file] == [*range(1, 5000)])\n"
    )
    done = completed([sys.executable, "-c", source])
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
