"""Percentiles, medians, savings, and how many workers fit."""

from collections.abc import Callable

import pytest

from pasture_tools.trial import measurement
from pasture_tools.trial.measurement import PolicyResult, Run, Shutdown, TrialResult

MB = 1_000_000
MakeRun = Callable[..., Run]
MakeResult = Callable[..., TrialResult]


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1), (0.01, 1), (0.5, 50), (0.95, 95), (0.951, 96), (1.0, 100)]
)
def test_a_percentile_is_a_value_that_occurred(share: float, value: int) -> None:
    assert measurement.percentile(range(1, 101), share) == value


def test_percentiles_of_nothing_are_zero() -> None:
    assert measurement.percentile([], 0.5) == 0


def test_a_load_is_summed_up_whatever_the_order_of_its_answers() -> None:
    figures = measurement.load_figures([30.0, 10.0, 20.0], failures=1, seconds=1.5)

    assert (figures.requests, figures.failures) == (3, 1)
    assert (figures.p50_ms, figures.p99_ms) == (20.0, 30.0)
    assert figures.requests_per_s == 2.0


def test_a_load_of_no_time_has_no_rate() -> None:
    assert measurement.load_figures([1.0], failures=0, seconds=0.0).requests_per_s == 0


def test_the_peak_of_a_shutdown_is_a_multiple_of_its_start() -> None:
    assert Shutdown(1.0, 200, 500, samples=3, workers_seconds=0.9).peak_ratio == 2.5


def test_figures_of_a_policy_are_medians_and_its_typical_run_has_the_median(
    make_run: MakeRun,
) -> None:
    runs = tuple(make_run(private=p * MB, round=i) for i, p in enumerate((30, 10, 20)))
    result = PolicyResult("stock", runs)

    assert result.median(lambda run: run.private_bytes_median) == 20 * MB
    assert result.spread(lambda run: run.private_bytes_median) == (10 * MB, 30 * MB)
    assert result.typical is runs[2]


def test_workers_that_fit_share_one_parent(make_result: MakeResult) -> None:
    """Stock: 51 + 4 * 20 = 131 MB; seal: 51 + n * 5 fits 16 times."""
    stock, seal = make_result().policies
    budget = stock.median(lambda run: run.total_pss_bytes)

    assert budget == 131 * MB
    assert measurement.workers_that_fit(budget, seal) == 16
    assert measurement.workers_that_fit(budget - 1, seal) == 15
    assert measurement.workers_that_fit(0, seal) == 0


def test_savings_are_counted_against_stock_wherever_it_stands(
    make_run: MakeRun, make_result: MakeResult
) -> None:
    assert make_result(make_run("seal"), make_run("stock")).reference.policy == "stock"
    assert make_result(make_run("seal"), make_run("freeze")).reference.policy == "seal"
