"""The notes of a command for `pasture doctor`, and those of a seal's report."""

import subprocess
import sys
from pathlib import Path

import pytest

from pasture.proc import packages
from pasture.proc.smaps import InMemory, parse_mapped_files
from pasture.reasons import Hazard, Reason
from pasture.scoreboard.figures import Counts, SealFigures
from pasture.scoreboard.layout import Snapshot
from pasture.sealing.seen import LeftOut, understand
from pasture_tools.doctor.boot import WATCH
from pasture_tools.doctor.notes import Notes, parse_notes

WATCHED = """
import gc, os, sys, threading, time
gc.enable()
threading.Thread(target=time.sleep, args=(9,), name="a\\tb", daemon=True).start()
if os.fork() == 0:
    import decimal
    try:
        import a_package_that_is_not_installed
    except ImportError:
        os._exit(0)
os.wait()
"""


@pytest.mark.once
def test_a_watched_program_reports_threads_at_its_fork_and_imports_after_it(
    tmp_path: Path,
) -> None:
    environ = {"PYTHONPATH": str(WATCH), "PASTURE_DOCTOR_FILE": str(tmp_path / "notes")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WATCHED],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    notes = parse_notes((tmp_path / "notes").read_text())
    assert notes.gc_callers == ("__main__ (<string>:3)",)
    assert {("a\\tb", "time")} == {(name, module) for _, name, module in notes.threads} - {
        ("MainThread", "threading")
    }
    [pid] = {pid for pid, _ in notes.imports}
    assert "decimal" in notes.imported_by((pid,))
    assert "a_package_that_is_not_installed" not in notes.imported_by((pid,))


def test_lines_that_are_no_notes_are_passed_over() -> None:
    text = "gc\n\nthread\tx\ty\tz\nimport\t7\njunk\tgc\nimport\t7\ta.b\nlazy\tjson\n"
    assert parse_notes(text) == Notes(lazy=("json",), imports=((7, "a.b"),))


def test_only_what_every_worker_imported_counts() -> None:
    notes = Notes(imports=((1, "a"), (1, "b"), (2, "b"), (3, "c")))
    assert notes.imported_by((1, 2)) == ("b",)
    assert notes.imported_by((1, 2, 3)) == () == notes.imported_by(())


BOARD = Snapshot({}, Counts(), SealFigures("seal", "3.14", hazards=2))


def step(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "skipped": None, "failed": None, "counts": {}, **more}


def test_a_report_says_which_steps_were_left_out_and_why() -> None:
    steps = [
        step("gather-code", skipped="not while a thread runs", why="thread-runs"),
        step("immortalize", skipped="this one is too old", why="version"),
        step("freeze"),
        step("plug-malloc", failed="OSError: no"),
        step(
            "warm-up",
            counts={"requests": 3, "failed": 1},
            problems=[
                "requests had no time limit",
                "GET /a\x1b: 500",
                "a request started thread t",
            ],
        ),
        step("trace-code", skipped="not started", why="not-started"),
        step("give-back", skipped="by a later pasture", why=["not known"]),
        step("resolve-imports", counts={"resolved": 1, "pending": 4}),
    ]
    hazards = [{"kind": "task", "what": "the task x()", "hint": "start it later", "count": 1}]
    document = {
        "policy": "seal",
        "sealed": False,
        "objects": 0,
        "reason": "1 thread\x1b",
        "why": "thread-runs",
        "threads": ["x\x1b"],
        "steps": steps,
        "hazards": hazards,
    }
    seal = understand(document, BOARD)
    assert seal is not None and seal.has_report
    assert seal.reason == "1 thread\\x1b"
    assert (seal.why, seal.beside) == (Reason.THREAD_RUNS, frozenset(["x\\x1b"]))
    assert seal.left_out == (
        LeftOut("gather-code", "not while a thread runs", Reason.THREAD_RUNS),
        LeftOut("immortalize", "this one is too old", Reason.VERSION),
        LeftOut("plug-malloc", "failed: OSError: no"),
        LeftOut("give-back", "by a later pasture"),
    )
    assert (seal.pending_imports, seal.freezes) == (4, True)
    assert seal.hazards == (Hazard("the task x()", "start it later", Reason.TASK),)
    assert seal.warm_up == (3, 1, "GET /a\\x1b: 500")


@pytest.mark.parametrize("document", [None, [], {"steps": [1]}, {"steps": [{}], "reason": 1}])
def test_a_report_that_is_none_leaves_what_the_scoreboard_says(document: object) -> None:
    seal = understand(document, BOARD)
    assert seal is not None and not seal.has_report and not seal.sealed
    assert seal.unnamed == 2 and not seal.hazards
    assert understand(document, None) is None


SMAPS = """\
7f00-7f01 r-xp 00000000 08:01 7 /site-packages/a b/_c.so
Size:                  8 kB
Rss:                   8 kB
Private_Clean:         0 kB
Private_Dirty:         4 kB
VmFlags: rd ex mr mw me
7f01-7f02 rw-p 00001000 08:01 7 /site-packages/a b/_c.so
Rss:                   4 kB
Private_Clean:         4 kB
7f02-7f03 rw-p 00000000 00:00 0
Rss:                4000 kB
7f03-7f04 rw-p 00000000 00:00 0 [heap]
Rss:                4000 kB
"""


def test_what_is_in_memory_of_a_file_is_the_sum_over_its_mappings() -> None:
    found = parse_mapped_files(SMAPS)
    assert found == {"/site-packages/a b/_c.so": InMemory(12 * 1024, 8 * 1024)}


def test_a_library_beside_a_package_is_the_packages(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    info = site / "numpy-2.5.5.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text("numpy.libs/libblas-1a.so.0,,\nnumpy/_core/_multi.so,sha,1\n")
    assert packages.package_of(str(site / "numpy.libs" / "libblas-1a.so.0")) == "numpy 2.5.5"
    assert packages.package_of(str(site / "own.so")) == "own.so"
    assert packages.package_of("/usr/lib/libz.so.1") == "libz.so.1"


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("apscheduler.schedulers", "apscheduler"),
        ("threading", packages.STANDARD_LIBRARY),
        ("__main__", ""),
        ("", ""),
    ],
)
def test_the_package_of_a_module_is_its_first_name(module: str, package: str) -> None:
    assert packages.package_of_module(module) == package
