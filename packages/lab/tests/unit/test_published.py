"""Every published figure has its row, with a rule or the reason why there can be none."""

from pathlib import Path

import pytest

from pasture_lab.engine import Options
from pasture_lab.engine.experiment import Experiment, Row
from pasture_lab.experiments import EXPERIMENTS

EVERY = [
    pytest.param(experiment, row, id=f"{name}-{row.what[:40]}")
    for name, experiment in EXPERIMENTS.items()
    for row in experiment.rows
]

PYTHONS = {"stock": "/usr/bin/python3", "patched": "/usr/bin/python3"}

# The figures of the publications, as they stand in the rows that owe them.
PUBLISHED = {
    "dismiss": [
        "RSS 250 MB; shared falls from 250 MB to 140 MB",
        "no change",
        "140 MB to 225 MB a worker",
        "8 GB less",
        "25% less",
        "over 10% more",
        "over 60 s instead of under 10 s",
        "wrote every page",
        "free memory fell to zero",
        "thrown out",
        "10% more everywhere",
    ],
    "code-refcount": ["no change"],
    "faults": ["collect in gcmodule.c"],
    "cache": ["2-3% lower", "about 10% higher"],
    "micro": ["60 MB", "0.9 MB", "16 bytes an object", "about 1 GB"],
    "growth": ["about 600 MB more after 3,000 requests", "linear", "stays", "about 50% lower"],
    "webserver": [
        "1,000-1,200 MB standard, about 800 MB patched (20% less)",
        "falls away",
        "flat",
        "190.8 conn/s standard, 67.9 patched",
        "269.2 conn/s standard, 148.7 patched",
        "97.7 conn/s standard (paging), 188.8 patched",
        "103.2 conn/s standard (paging), 190.9 patched",
    ],
    "site": ["left open"],
}


def test_the_experiments_are_those_that_were_published() -> None:
    assert set(EXPERIMENTS) == set(PUBLISHED)


@pytest.mark.parametrize(
    ("name", "figure"), [(name, figure) for name, all_ in PUBLISHED.items() for figure in all_]
)
def test_a_published_figure_has_a_row(name: str, figure: str) -> None:
    assert any(figure in row.published for row in EXPERIMENTS[name].rows)


@pytest.mark.parametrize(("experiment", "row"), EVERY)
def test_a_published_figure_has_a_rule_or_a_reason(experiment: Experiment, row: Row) -> None:
    assert bool(row.published) == bool(row.rule or row.never)
    if row.rule is not None:
        assert row.rule.least is not None or row.rule.most is not None
        assert row.shows


@pytest.mark.parametrize(("experiment", "row"), EVERY)
def test_the_published_ratio_meets_the_rule_that_it_is_judged_by(
    experiment: Experiment, row: Row
) -> None:
    if row.rule is not None and row.rule.published is not None:
        assert row.rule.judge(row.rule.published) == "reproduced"


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_every_figure_that_a_row_names_is_of_a_run_or_derived(
    experiment: Experiment, quick: bool
) -> None:
    options = Options(quick=quick, pythons=PYTHONS, wagtail=True, site=Path("/"))
    parts = {part.name for part in experiment.parts(options)}
    for row in (*experiment.rows, *experiment.more_rows(options)):
        for name in row.rule.needs if row.rule else ():
            part, dot, _ = name.rpartition(".")
            derived = not dot or part in {"patched", "paging-stock", "paging-seal"}
            assert derived or part in parts, name


def test_each_interpreter_that_is_given_has_a_row_and_the_first_is_compared_with() -> None:
    first, _, memory, rate = EXPERIMENTS["webserver"].more_rows(Options(pythons=PYTHONS))
    assert (first.what, first.rule) == ("stock, as it is: memory", None)
    for row, needs in (
        (memory, ("python-patched.private_end_bytes", "python-stock.private_end_bytes")),
        (rate, ("rate-python-patched.r5000_a_second", "rate-python-stock.r5000_a_second")),
    ):
        assert row.rule is not None
        assert row.rule.needs == needs
        assert row.rule.published is not None
        assert row.rule.judge(row.rule.published) == "reproduced"
    assert EXPERIMENTS["webserver"].more_rows(Options()) == ()


def test_the_estimates_stay_within_what_was_promised() -> None:
    for quick, minutes in ((True, 10), (False, 60)):
        parts = [p for e in EXPERIMENTS.values() for p in e.parts(Options(quick=quick))]
        assert sum(part.seconds for part in parts) < minutes * 60
