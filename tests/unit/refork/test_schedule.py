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


@pytest.mark.parametrize(
    ("environ", "policy", "limits"),
    [
        ({"PASTURE_REFORK": "7"}, "refork", (7,)),
        ({"PASTURE_POLICY": "refork"}, "refork", (50, 500, 2000)),
        ({"PASTURE_REFORK": "7", "PASTURE_POLICY": "freeze"}, "freeze", (7,)),
    ],
)
def test_a_schedule_brings_the_policy_refork_and_the_policy_a_schedule(
    environ: dict[str, str], policy: str, limits: tuple[int, ...]
) -> None:
    settings = read_environment(environ)
    assert (settings.policy.name, settings.refork) == (policy, Schedule(limits))
    assert read_environment({}).refork is None


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
