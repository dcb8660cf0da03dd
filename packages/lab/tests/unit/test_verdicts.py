"""Rules and verdicts of the lab: ratios, never absolute figures."""

import pytest

from pasture_lab.engine.experiment import Row
from pasture_lab.engine.figures import Curve
from pasture_lab.engine.rule import Rule, Verdict
from pasture_lab.engine.verdict import judge_experiment, judge_rows

HALF = Rule(says="b / a", of="two.b", to="one.a", least=0.4, most=0.6, published=0.5)


@pytest.mark.parametrize(
    ("b", "verdict"),
    [
        (3.9, Verdict.NOT_REPRODUCED),
        (4.0, Verdict.REPRODUCED),
        (6.0, Verdict.REPRODUCED),
        (6.1, Verdict.NOT_REPRODUCED),
    ],
)
def test_a_rule_includes_its_bounds(b: float, verdict: Verdict) -> None:
    (judged,) = judge_rows([Row(what="", rule=HALF)], {"one.a": 10.0, "two.b": b}, {})
    assert judged.verdict is verdict
    assert judged.ratio == pytest.approx(b / 10)


def test_only_the_ratio_counts() -> None:
    small = HALF.ratio({"one.a": 10, "two.b": 5})
    assert small == HALF.ratio({"one.a": 10e9, "two.b": 5e9}) == 0.5


def test_a_missing_figure_is_not_measurable_for_the_reason_of_its_part() -> None:
    row = Row(what="", rule=HALF)
    (judged,) = judge_rows(
        [row], {"one.a": 10.0}, {"three": "no disk", "two": "nginx is not installed"}
    )
    assert judged.verdict is Verdict.NOT_MEASURABLE
    assert judged.reason == "nginx is not installed"


def test_a_divisor_of_zero_is_not_measurable_and_no_crash() -> None:
    row = Row(what="", rule=HALF, without="no process was killed")
    (judged,) = judge_rows([row], {"one.a": 0.0, "two.b": 1.0}, {})
    assert (judged.verdict, judged.reason) == (Verdict.NOT_MEASURABLE, "no process was killed")


def test_a_row_that_nothing_can_measure_says_why() -> None:
    (judged,) = judge_rows([Row(what="", published="8 GB", never="no fleet")], {}, {})
    assert (judged.verdict, judged.reason) == (Verdict.NOT_MEASURABLE, "no fleet")


def test_a_row_of_ours_has_no_verdict() -> None:
    (judged,) = judge_rows([Row(what="", shows="{one.a}")], {"one.a": 1.0}, {})
    assert judged.verdict is None


def test_one_row_that_is_not_reproduced_decides_unless_it_does_not_count() -> None:
    good, bad = {"one.a": 10.0, "two.b": 5.0}, {"one.a": 10.0, "two.b": 9.0}
    upper = Rule(says="", of="two.b", to="one.a", most=1.0)
    rows = (Row(what="", rule=HALF), Row(what="", rule=upper))
    assert judge_experiment(judge_rows(rows, good, {})) is Verdict.REPRODUCED
    assert judge_experiment(judge_rows(rows, bad, {})) is Verdict.NOT_REPRODUCED
    aside = (Row(what="", rule=HALF, decides=False), rows[1])
    assert judge_experiment(judge_rows(aside, bad, {})) is Verdict.REPRODUCED


def test_an_experiment_of_which_nothing_was_measured_is_not_measurable() -> None:
    rows = judge_rows([Row(what="", rule=HALF), Row(what="", never="no")], {}, {})
    assert judge_experiment(rows) is Verdict.NOT_MEASURABLE


def test_a_straight_line_has_its_slope_and_a_linearity_of_one() -> None:
    line = Curve((0.0, 100.0, 200.0), (5.0, 25.0, 45.0))
    assert line.slope == pytest.approx(0.2)
    assert line.linearity == pytest.approx(1.0)


def test_a_step_is_less_linear_than_a_line() -> None:
    step = Curve(tuple(map(float, range(10))), (0.0,) * 5 + (1.0,) * 5)
    assert step.linearity < 0.8
