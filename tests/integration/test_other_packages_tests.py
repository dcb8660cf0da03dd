"""The harness of `make test-packages`, on a suite of our own instead of other people's."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from running import completed

pytestmark = pytest.mark.once

MATRIX = Path(__file__).resolve().parents[2] / "matrix"
HARNESS = MATRIX / "packages"

SUITE = """
import os, signal, sys

made_at_import = object()

def test_it_passes():
    pass

def test_the_count_of_what_import_made_is_small():
    assert sys.getrefcount(made_at_import) < 1000
"""
CRASH = """
def test_it_crashes_where_counts_are_huge():
    if sys.getrefcount(made_at_import) > 1000:
        os.kill(os.getpid(), signal.SIGSEGV)

def test_behind_the_crash():
    pass
"""


@pytest.fixture(autouse=True)
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The harness is a program, not a package: its modules are found beside it."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(MATRIX / "cpython"))
    monkeypatch.syspath_prepend(str(HARNESS))
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(MATRIX)):
            del sys.modules[name]


def run_suite(folder: Path, kind: str) -> Any:
    from outcomes import ModuleRun, read_outcomes

    events = folder / f"{kind}.jsonl"
    command = [sys.executable, "-m", "pytest", "-p", "pytest_sealed_child", "-c", "/dev/null"]
    command += [f"--rootdir={folder}", "--events", str(events), *["--seal"] * (kind == "sealed")]
    environment = {"PYTHONPATH": str(HARNESS / "inside"), "PATH": "/usr/bin:/bin"}
    done = completed([*command, str(folder)], env=environment)
    outcomes, finished = read_outcomes(events.read_text().splitlines())
    assert outcomes, done.stdout + done.stderr
    return ModuleRun("suite", outcomes, finished, done.returncode, 0.0)


def differing(folder: Path) -> dict[str, str]:
    from outcomes import differences

    plain, sealed = run_suite(folder, "plain"), run_suite(folder, "sealed")
    assert plain.finished and plain.exit_code == 0
    return {each.test: each.sealed.outcome for each in differences(plain, sealed)}


def test_a_test_that_sees_the_seal_is_the_only_difference(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    seen = "test_suite.py::test_the_count_of_what_import_made_is_small"
    assert differing(tmp_path) == {seen: "failed"}


def test_a_crash_names_the_test_and_is_seen_in_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE + CRASH)
    found = differing(tmp_path)
    assert found["test_suite.py::test_it_crashes_where_counts_are_huge"] == "crashed"
    assert found["(the process)"] == "crashed"
    assert "test_suite.py::test_behind_the_crash" not in found


def a_run(**outcomes: str) -> Any:
    from outcomes import ModuleRun, Outcome

    return ModuleRun("p", {t: Outcome(o) for t, o in outcomes.items()}, True, 0, 0.0)


def compared(documented: Sequence[str], answer: Callable[[str, Sequence[str]], Any]) -> Any:
    from comparison import compare
    from expected import Change, Expected

    return compare(answer, Expected([Change("a change", "why", {"p": documented})], "p", "sealed"))


def test_a_failure_that_a_plain_run_shows_once_is_unsteady() -> None:
    def answer(kind: str, only: Sequence[str]) -> Any:
        return a_run(t="failed" if kind in ("sealed", "plain-again-2") else "passed")

    result = compared([], answer)
    assert not result.found and [each.test for each in result.unsteady] == ["t"]


def test_a_failure_that_sealed_runs_show_again_is_new() -> None:
    result = compared([], lambda kind, only: a_run(t="passed" if "plain" in kind else "failed"))
    assert [each.test for each in result.found] == ["t"] and not result.unsteady


def test_a_failure_that_needs_the_company_of_the_other_tests_is_new() -> None:
    def answer(kind: str, only: Sequence[str]) -> Any:
        return a_run(t="failed" if kind.startswith("sealed") and not only else "passed")

    assert [each.test for each in compared([], answer).found] == ["t"]


def test_a_failure_that_no_other_run_shows_is_unsteady() -> None:
    def answer(kind: str, only: Sequence[str]) -> Any:
        return a_run(t="failed" if kind == "sealed" else "passed")

    assert [each.test for each in compared([], answer).unsteady] == ["t"]


def test_a_crash_is_new_although_no_other_run_shows_it() -> None:
    from outcomes import ModuleRun

    def answer(kind: str, only: Sequence[str]) -> Any:
        whole = a_run(t="passed")
        return ModuleRun("p", whole.outcomes, False, 139, 0.0) if kind == "sealed" else whole

    assert [each.sealed.outcome for each in compared([], answer).found] == ["crashed"]


def test_a_documented_failure_is_not_run_again() -> None:
    kinds = []

    def answer(kind: str, only: Sequence[str]) -> Any:
        kinds.append(kind)
        return a_run(t="passed" if kind == "plain" else "failed")

    compared(["t"], answer)
    assert kinds == ["plain", "sealed"]


def test_a_kept_result_serves_the_same_entry_and_build_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    import kept
    from catalog import load_packages

    monkeypatch.setattr(kept, "BUILD", tmp_path)
    package = next(iter(load_packages().values()))
    result = compared([], lambda kind, only: a_run(t="passed" if "plain" in kind else "failed"))
    kept.keep(package, "digest", result)
    assert kept.kept(package, "digest") == result
    assert kept.kept(package, "other digest") is None
    assert kept.kept(dataclasses.replace(package, version="0"), "digest") is None
    (tmp_path / f"{package.name}.json").write_text(json.dumps({})[:1])
    assert kept.kept(package, "digest") is None


def test_an_unknown_package_is_answered_with_those_that_there_are() -> None:
    command = [sys.executable, str(HARNESS), "nosuchpackage"]
    done = completed(command)
    assert done.returncode == 2 and "numpy" in done.stderr and "Traceback" not in done.stderr
