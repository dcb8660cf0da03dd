"""After how many requests a generation reforks, and how a user says it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pasture.errors import UsageError
from pasture.refork.schedule import Payoff, Schedule, parse_schedule
from pasture.serving.settings import read_environment
from pasture_tools.cli.run import command


def test_the_last_limit_of_a_schedule_holds_for_all_later_generations() -> None:
    schedule = parse_schedule(" 50, 500,2000 ")
    assert [schedule.limit(level) for level in range(5)] == [50, 500, 2000, 2000, 2000]
    assert str(schedule) == "50,500,2000"


@pytest.mark.parametrize("text", ["", "50,", "0", "-5", "fifty", "5.5"])
def test_a_schedule_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a refork schedule"):
        parse_schedule(text)


def test_a_schedule_without_a_policy_means_the_policy_refork() -> None:
    settings = read_environment({"PASTURE_REFORK": "7"})
    assert settings.policy.name == "refork" and settings.refork == Schedule((7,))


def test_the_policy_refork_brings_a_schedule() -> None:
    settings = read_environment({"PASTURE_POLICY": "refork"})
    assert settings.refork == Schedule((50, 500, 2000))
    assert read_environment({}).refork is None


def test_another_policy_can_be_given_a_schedule() -> None:
    settings = read_environment({"PASTURE_REFORK": "7", "PASTURE_POLICY": "freeze"})
    assert settings.policy.name == "freeze" and settings.refork == Schedule((7,))


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["--refork", "soon", "gunicorn", "a:b"], "is not a refork schedule"),
        (["--refork", "50", "python", "a.py"], "python cannot refork"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(words: list[str], reported: str) -> None:
    result = CliRunner().invoke(command, words)
    assert isinstance(result.exception, UsageError) and reported in str(result.exception)


# --- Whether a refork paid ---


@pytest.mark.parametrize(("after", "pays"), [(50_000_000, True), (99_500_000, False)])
def test_a_round_pays_if_it_saves_a_hundredth(after: int, pays: bool) -> None:
    verdict = Payoff(3, 100_000_000, 500.4).verdict(after)
    assert verdict is not None and verdict[0] is pays
    assert f"100.0 MB before, {after / 1e6:.1f} MB after, at 500 requests" in verdict[1]


def test_a_round_that_was_not_measured_has_no_verdict() -> None:
    assert Payoff(1, None, 10).verdict(5) is None
