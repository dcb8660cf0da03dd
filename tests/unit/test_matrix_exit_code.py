"""tools/test-matrix: what makes a run of all sessions pass or fail."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.once

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "test-matrix"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("matrix_tool", str(SCRIPT))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, loader.name, module)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("statuses", "all_required", "code"),
    [
        (["ok", "ok"], True, 0),
        (["ok, 1 unsteady", "ok"], True, 0),
        (["ok", "FAILED"], False, 1),
        (["ok", "NOT BUILT"], False, 1),
        (["ok", "NO TESTS"], False, 1),
        (["ok", "ABSENT"], False, 0),
        (["ok", "ABSENT"], True, 1),
        (["ABSENT", "ABSENT"], False, 1),
    ],
)
def test_every_session_has_to_pass_and_an_absent_interpreter_only_where_it_is_required(
    tool: ModuleType, statuses: list[str], all_required: bool, code: int
) -> None:
    session = tool.Session("3.14", "3.14", "", ("tests",))
    outcomes = [tool.Outcome(session, status) for status in statuses]
    assert tool.exit_code(outcomes, all_required) == code


def test_many_failures_are_no_missed_deadlines_and_nothing_runs_again(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool.subprocess, "run", lambda *_, **__: pytest.fail("ran again"))
    session = tool.Session("3.14", "3.14", "", ("tests",))
    failed = tuple(f"test_{number}" for number in range(tool.MOST_UNSTEADY + 1))
    outcome = tool.Outcome(session, "FAILED", (0, len(failed), 0), 1.0, failed)
    assert tool.run_again(outcome) == outcome
