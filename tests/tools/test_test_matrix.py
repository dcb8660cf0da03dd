"""tools/test-matrix: what makes a run of all sessions pass or fail, and what runs again."""

from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("test-matrix")


def outcome(tool: ModuleType, minor: str, status: str) -> object:
    return tool.Outcome(tool.Session(minor, minor, "", ()), status)


def test_a_host_may_lack_the_version_that_debian_has_not_even_if_all_are_required(
    tool: ModuleType,
) -> None:
    passed = outcome(tool, "3.14", "ok")
    not_in_debian = outcome(tool, "3.12", tool.IF_FOUND["3.12"])

    assert tool.exit_code([passed, not_in_debian], all_required=True) == 0
    assert tool.exit_code([not_in_debian], all_required=True) == 1, "nothing was tested"


@pytest.mark.once
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


@pytest.mark.once
def test_many_failures_are_no_missed_deadlines_and_nothing_runs_again(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool.subprocess, "run", lambda *_, **__: pytest.fail("ran again"))
    session = tool.Session("3.14", "3.14", "", ("tests",))
    failed = tuple(f"test_{number}" for number in range(tool.MAX_RUN_AGAIN + 1))
    outcome = tool.Outcome(session, "FAILED", (0, len(failed), 0), 1.0, failed)
    assert tool.run_again(outcome) == outcome
