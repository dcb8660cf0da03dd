"""tools/test-matrix: what an absent interpreter means for the run."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "test-matrix"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("test_matrix_tool", str(SCRIPT))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, loader.name, module)
    loader.exec_module(module)
    return module


def outcome(tool: ModuleType, minor: str, status: str) -> object:
    return tool.Outcome(tool.Session(minor, minor, "", ()), status)


def test_a_host_may_lack_the_version_that_debian_has_not_even_if_all_are_required(
    tool: ModuleType,
) -> None:
    passed = outcome(tool, "3.14", "ok")
    not_in_debian = outcome(tool, "3.12", tool.IF_FOUND["3.12"])

    assert tool.exit_code([passed, not_in_debian], all_required=True) == 0
    assert tool.exit_code([not_in_debian], all_required=True) == 1, "nothing was tested"


def test_any_other_absent_interpreter_fails_the_run_if_all_are_required(tool: ModuleType) -> None:
    outcomes = [outcome(tool, "3.14", "ok"), outcome(tool, "3.15", "ABSENT")]

    assert tool.exit_code(outcomes, all_required=True) == 1
    assert tool.exit_code(outcomes, all_required=False) == 0
