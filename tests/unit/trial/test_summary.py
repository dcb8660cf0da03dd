"""Sentences, table and progress as a person reads them."""

from collections.abc import Callable
from dataclasses import replace

from rich.console import Console

from pasture.errors import ServerFailed
from pasture.interpreter import current
from pasture.reasons import Hazard, Reason
from pasture.sealing.report import SealReport, StepReport
from pasture_tools.display import units
from pasture_tools.trial import summary, table
from pasture_tools.trial.measurement import Failure, Run, TrialResult
from pasture_tools.trial.responses import Disagreement

MB = 1_000_000
MakeRun = Callable[..., Run]
MakeResult = Callable[..., TrialResult]


def _printed(result: TrialResult) -> str:
    console = Console(record=True, width=110, force_terminal=False)
    with console.capture() as capture:
        table.print_result(result, console)
    return capture.get()


def test_sizes_lose_decimals_when_they_grow() -> None:
    assert units.megabytes(1_234_567) == "1.2 MB"
    assert units.megabytes(123_456_789) == "123 MB"
    assert units.megabytes(-1_500_000) == "-1.5 MB"
    assert units.seconds(0.123) == "0.12 s"
    assert units.count(1, "worker") == "1 worker"
    assert units.count(2000, "request") == "2,000 requests"


def test_the_headline_names_what_the_best_policy_saves(make_result: MakeResult) -> None:
    assert summary.headline(make_result()) == "seal saves 60.0 MB of 131 MB (46 %)"


def test_a_saving_within_the_noise_is_not_claimed(
    make_result: MakeResult, make_run: MakeRun
) -> None:
    result = make_result(make_run("stock"), make_run("freeze", private=20 * MB - 1000))

    assert summary.headline(result).startswith("Nothing saved")


def test_with_several_policies_the_sentence_names_the_workers_once(
    make_result: MakeResult, make_run: MakeRun
) -> None:
    result = make_result(
        make_run("stock"), make_run("freeze", private=20 * MB), make_run("seal", private=5 * MB)
    )

    assert summary.capacity(result) == (
        "The memory of 4 stock workers (131 MB) holds 4 workers under freeze, or 16 under seal."
    )


def test_a_single_policy_is_only_described(make_result: MakeResult, make_run: MakeRun) -> None:
    result = make_result(make_run("seal", private=5 * MB))

    assert summary.headline(result) == "seal takes 71.0 MB with 4 workers"
    assert summary.capacity(result) == "4 workers under seal took 71.0 MB."


def test_a_sentence_says_what_a_request_costs_each_policy(
    make_result: MakeResult, make_run: MakeRun
) -> None:
    result = make_result(make_run("stock"), make_run("seal", processor_s=0.9))

    assert summary.processor(result) == "Processor time a request: stock 40 ms, seal 9.0 ms."
    assert summary.processor(make_result(make_run("seal"))) is None
    assert make_run("seal", requests=0).processor_s_per_request == 0


def test_the_table_has_a_row_for_each_policy(make_result: MakeResult) -> None:
    lines = _printed(make_result()).splitlines()

    (stock,) = (line for line in lines if line.startswith("stock  "))
    (seal,) = (line for line in lines if line.startswith("seal  "))
    assert "20.0 MB" in stock and "131 MB" in stock and "%" not in stock
    assert "5.0 MB" in seal and "60.0 MB" in seal and "46 %" in seal
    assert "4.0/9.5/20" in seal and "0.50 s" in seal and "2.00x" in seal


def test_different_answers_and_notes_stand_under_the_table(make_result: MakeResult) -> None:
    result = make_result(notes=("stock: memory was swapped out",))
    differing = replace(
        result.policies[1], disagreements=(Disagreement("GET /", "status", "200", "500"),)
    )
    result = replace(result, policies=(result.policies[0], differing))

    printed = _printed(result)

    assert "seal answers differently: GET /: status 500 instead of 200" in printed
    assert "stock: memory was swapped out" in printed


def test_several_rounds_report_their_spread(make_result: MakeResult, make_run: MakeRun) -> None:
    result = make_result(make_run(round=0, private=10 * MB), make_run(round=1, private=20 * MB))

    assert "stock 10.0 MB to 20.0 MB" in _printed(result)
    assert "One round" not in _printed(result)


def test_rates_of_one_round_are_said_to_be_of_one_round(make_result: MakeResult) -> None:
    assert "One round: requests a second" in _printed(make_result())
    whole = make_result()
    assert "One round" not in _printed(replace(whole, policies=whole.policies[:1]))


def test_a_policy_without_figures_has_a_row_that_says_why(
    make_result: MakeResult, make_run: MakeRun
) -> None:
    whole = make_result(policies=("stock", "freeze", "seal", "refork"))
    failure = Failure("freeze", 0, ServerFailed("the server fell over"))

    printed = _printed(replace(whole, failures=(failure,), interrupted=True))

    assert "\nfreeze failed: the server fell over\nrefork not run\n" in printed
    assert "note: interrupted: 2 of 4 runs ended" in printed


def test_what_a_policy_could_not_do_stands_beside_its_figures(
    make_result: MakeResult, make_run: MakeRun
) -> None:
    run = make_run("refork", shortfalls=("did not refork: no",))

    assert "\nrefork did not refork: no\n" in _printed(make_result(make_run("stock"), run))


def test_a_round_that_failed_is_noted(make_result: MakeResult) -> None:
    failure = Failure("seal", 1, ServerFailed("it fell over"))

    printed = _printed(replace(make_result(), failures=(failure,)))

    assert "note: seal: a later run failed: it fell over" in printed


def test_hazards_of_a_seal_are_beside_the_figures_of_its_policy(
    make_result: MakeResult, make_run: MakeRun
) -> None:
    hazard = Hazard("the connection to db", "open it in each worker", Reason.CONNECTION)
    step = StepReport("survey", hazards=(hazard, hazard))
    report = SealReport(current(), "seal", True, None, 1, (step,)).as_dict()
    sealed = replace(make_run("seal"), report=report)
    result = make_result(make_run("stock"), sealed)
    assert summary.beside_figures(result) == [("seal", f"hazard: {hazard}")]
    assert f"hazard: {hazard}" in " ".join(_printed(result).split())
