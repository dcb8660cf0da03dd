"""What is refused before any process is started."""

from pathlib import Path
from typing import Any

import pytest

from pasture.errors import PastureError, UnknownPolicy, UsageError
from pasture.warmup.requests import Request
from pasture_tools.trial.plan import TrialPlan, check_plan


def _refused(**changes: Any) -> PastureError:
    with pytest.raises(PastureError) as caught:
        check_plan(TrialPlan(app="site:app", **changes))
    return caught.value


def test_the_defaults_are_accepted() -> None:
    check_plan(TrialPlan(app="site:app"))


@pytest.mark.parametrize("name", ["workers", "requests", "rounds", "server_timeout_s"])
def test_nothing_can_be_zero(name: str) -> None:
    error = _refused(**{name: 0})

    assert isinstance(error, UsageError)
    assert name in error.message


def test_an_unknown_policy_is_answered_with_the_nearest() -> None:
    error = _refused(policies=("stock", "frezee"))

    assert isinstance(error, UnknownPolicy)
    assert "did you mean freeze?" in error.hint
    assert "warm-freeze" in error.hint


@pytest.mark.parametrize("policies", [(), ("stock", "stock")])
def test_policies_are_named_once_each(policies: tuple[str, ...]) -> None:
    assert isinstance(_refused(policies=policies), UsageError)


def test_the_folder_of_the_server_must_exist(tmp_path: Path) -> None:
    absent = tmp_path / "absent"

    assert str(absent) in _refused(chdir=absent).message


def test_a_load_needs_a_url() -> None:
    assert "URL" in _refused(urls=()).message


def test_one_user_a_worker_is_simulated_unless_asked_otherwise() -> None:
    assert TrialPlan(app="a", workers=3).users == 3
    assert TrialPlan(app="a", workers=3, concurrency=7).users == 7


def test_the_warm_up_is_the_users_or_one_request_for_each_distinct_url() -> None:
    a, b = Request("GET", "/a"), Request("GET", "/b")

    assert TrialPlan(app="a", urls=(a, b, a)).warm_up == (a, b)
    assert TrialPlan(app="a", urls=(a, b, a), warm=(b,)).warm_up == (b,)
