"""A policy that could not do what it promises says so."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pasture.sealing.policy import POLICIES
from pasture_tools.trial.measurement import LoadFigures, Run, TrialResult
from pasture_tools.trial.notes import notes_on, shortfalls

pytestmark = pytest.mark.once

MakeRun = Callable[..., Run]
TORNADO = "[7] [WARNING] pasture: no refork: workers of class tornado cannot become parents\n"
FAILED = (
    "[7] [WARNING] pasture: refork to generation 1 failed: the connection to 127.0.0.1:5432 does "
    "not survive a fork: open it in each worker; generation 0 goes on; the next try is in 10 s\n"
)


def test_a_refork_with_workers_that_cannot_is_reported_with_the_servers_reason(
    make_run: MakeRun,
) -> None:
    final = make_run().final

    (words,) = shortfalls(POLICIES["refork"], final, {"sealed": True}, TORNADO)

    assert words == "did not refork: workers of class tornado cannot become parents"
    assert shortfalls(POLICIES["refork"], final, None, "") == (
        "did not refork: the server did not say why",
    )


def test_a_refork_that_has_a_mold_kept_its_promise(make_run: MakeRun) -> None:
    final = make_run().final

    assert shortfalls(POLICIES["refork"], replace(final, others=(final.master,)), None, "") == ()


def test_a_refork_that_the_worker_refused_is_reported_unless_a_later_one_succeeded(
    make_run: MakeRun,
) -> None:
    run = make_run().final
    final = replace(run, others=(run.master,))  # that of generation 0

    (words,) = shortfalls(POLICIES["refork"], final, {"sealed": True}, FAILED)

    assert words == (
        "did not refork: the connection to 127.0.0.1:5432 does not survive a fork: open it in each "
        "worker"
    )
    later = f"{FAILED}[7] [INFO] pasture: all workers are of generation 2\n"
    assert shortfalls(POLICIES["refork"], final, {"sealed": True}, later) == ()


def test_a_heap_that_was_not_sealed_is_reported(make_run: MakeRun) -> None:
    final = make_run().final
    refused = {"sealed": False, "reason": "thread worker-1 runs"}

    assert shortfalls(POLICIES["seal"], final, refused, "") == (
        "did not seal: thread worker-1 runs",
    )
    reload = "pasture: no seal: --reload loads the application in each worker"
    assert shortfalls(POLICIES["seal"], final, None, reload) == (
        "did not seal: --reload loads the application in each worker",
    )
    assert shortfalls(POLICIES["seal"], final, {"sealed": True}, "") == ()
    assert shortfalls(POLICIES["stock"], final, None, reload) == ()


@pytest.mark.parametrize(("p95_ms", "is_said"), [(9.5, False), (25.0, False), (80.0, True)])
def test_requests_that_wait_much_longer_than_under_the_reference_are_said(
    make_run: MakeRun, make_result: Callable[..., TrialResult], p95_ms: float, is_said: bool
) -> None:
    load = LoadFigures(100, 0, 2.0, p50_ms=4.0, p95_ms=p95_ms, p99_ms=90.0)
    result = make_result(make_run("plain"), make_run("seal", load=load), requests=100)
    notes = notes_on(result.plan, result.policies)
    said = "seal: one request in 20 waits 80 ms or longer, and under plain 9.5 ms"
    assert (said in notes) == is_said
