"""What a seal reports, as one line and as JSON."""

import dataclasses
import json
import os
import sys
from pathlib import Path

import pytest

from pasture.interpreter import Interpreter, current
from pasture.reasons import Hazard, Reason
from pasture.sealing.report import SHOWN_NAME, SealReport, StepReport, read_report, show_report

pytestmark = pytest.mark.interpreter

CPYTHON = Interpreter("CPython", "3.14.2", False, True, None)


def report(*steps: StepReport, sealed: bool = True, reason: str | None = None) -> SealReport:
    return SealReport(CPYTHON, "seal", sealed, reason, 1, steps)


FULL = report(
    StepReport("collect", 0.25, {"unreachable": 7}),
    StepReport("immortalize", 0.5, {"objects": 1_234_567, "hashes": 5}),
    StepReport("plug-malloc", 0.125, {"blocks": 3, "bytes": 2_000_000}),
    StepReport("plug-pymalloc", 0.125, {"blocks": 4, "bytes": 500_000}),
)


def test_totals_are_sums_over_the_steps() -> None:
    assert FULL.objects == 1_234_567
    assert FULL.plugged_bytes == 2_500_000
    assert FULL.seconds == 1.0


def test_one_line_says_what_is_sealed() -> None:
    assert str(FULL) == (
        "policy seal on CPython 3.14.2: sealed, 1,234,567 objects immortal in 1.00 s"
    )


def test_one_line_says_what_a_step_noted() -> None:
    line = str(report(StepReport("plug-malloc", note="jemalloc: free blocks filled")))
    assert line.endswith("; plug-malloc: jemalloc: free blocks filled")


def test_one_line_leaves_out_a_warm_up_that_has_no_requests_and_the_usual_allocator() -> None:
    none = StepReport("warm-up", skipped="no requests were given", why=Reason.NO_REQUESTS)
    usual = StepReport("plug-malloc", note="glibc: free chunks of its main heap filled")
    assert str(report(none, usual)).endswith(": sealed in 0.00 s")


def test_one_line_says_what_was_skipped_what_failed_and_what_went_wrong() -> None:
    found = report(
        StepReport("warm-up", problems=("GET /: 500",)),
        StepReport("immortalize", skipped="no such thing here"),
        StepReport("plug-malloc", failed="MemoryError"),
        sealed=False,
        reason="plug-malloc failed",
    )
    line, problem = str(found).splitlines()
    assert line == found.line and (problem,) == found.warnings
    assert "not sealed (plug-malloc failed)" in line
    for note in ("no immortalize: no such thing here", "plug-malloc failed: MemoryError"):
        assert note in line
    assert problem == "warm-up: GET /: 500"


def test_each_hazard_has_a_line_of_its_own_and_equal_ones_share_it() -> None:
    file = Hazard("the open SQLite database a.db", "close it", Reason.DATABASE)
    task = Hazard("the task refresh()", "start it in each worker", Reason.TASK)
    problems = tuple(map(str, (file, file)))
    found = report(
        StepReport("warm-up", problems=("GET /: 500", "GET /: 500"), hazards=(task,)),
        StepReport("survey", problems=problems, hazards=(file, file)),
    )
    assert found.warnings == (
        f"hazard: {task}",
        f"hazard: {file} (2 times)",
        "warm-up: GET /: 500 (2 times)",
    )
    assert "does not survive" not in found.line
    carried = json.loads(json.dumps(found.as_dict()))["hazards"]
    assert [(one["kind"], one["count"]) for one in carried] == [("task", 1), ("database-file", 2)]


def test_one_line_does_not_take_the_warm_up_for_a_cost_of_the_seal() -> None:
    line = str(report(StepReport("warm-up", 3.0, {"requests": 2}), StepReport("freeze", 0.5)))
    assert line.endswith("sealed in 0.50 s after a warm-up of 3.00 s")


def test_json_carries_everything() -> None:
    document = json.loads(json.dumps(FULL.as_dict()))
    assert document["interpreter"] == {
        "implementation": "CPython",
        "version": "3.14.2",
        "free_threaded": False,
        "has_immortality": True,
        "unsupported": None,
        "why": None,
    }
    assert (document["policy"], document["sealed"], document["round"]) == ("seal", True, 1)
    assert (document["objects"], document["plugged_bytes"]) == (1_234_567, 2_500_000)
    assert document["steps"][1] == {
        "name": "immortalize",
        "seconds": 0.5,
        "counts": {"objects": 1_234_567, "hashes": 5},
        "skipped": None,
        "failed": None,
        "problems": [],
        "note": None,
        "hazards": [],
        "why": None,
        "mortal_types": [],
        "dead_types": [],
    }


def test_a_report_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.sealed = False  # type: ignore[misc]


def test_a_free_threaded_interpreter_is_named_as_such() -> None:
    assert str(CPYTHON._replace(free_threaded=True)) == "CPython 3.14.2 (free-threaded)"


def test_a_free_threaded_build_is_refused_with_the_one_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "abiflags", "t")
    refusal = current().unsupported
    assert refusal is not None
    assert refusal.startswith("a free-threaded build")
    assert f"run this on python{sys.version_info[0]}.{sys.version_info[1]}," in refusal


def test_the_latest_report_is_shown_to_others_and_no_other_file_is_closed_for_it() -> None:
    def memory() -> list[int]:
        return [f for f in range(3, 100) if SHOWN_NAME in readlink(f)]

    def readlink(file: int) -> str:
        path = Path(f"/proc/self/fd/{file}")
        return str(path.readlink()) if path.is_symlink() else ""

    show_report(report(reason="first", sealed=False))
    show_report(report())
    assert read_report(os.getpid())["sealed"] is True
    [file] = memory()
    with pytest.raises(PermissionError):
        os.pwrite(file, b"x", 0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, file)
    assert read_report(os.getpid()) is None
    show_report(report(reason="third", sealed=False))
    assert readlink(file) == os.devnull
    assert read_report(os.getpid())["reason"] == "third"
    os.close(null)
    os.close(file)
