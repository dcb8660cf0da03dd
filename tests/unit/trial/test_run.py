"""Which runs a trial makes of a plan, and what it says of their answers.

A run is played by a function, so that nothing is started.
"""

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pasture.errors import (
    ServerFailed,
    UsageError,
)
from pasture_tools.display.progress import Event, Finished, OnEvent, Started
from pasture_tools.launch.session import Group
from pasture_tools.trial import attempt_trial, run_trial
from pasture_tools.trial.document import as_document
from pasture_tools.trial.measurement import Run, Shutdown, TrialResult
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.responses import UrlAnswers
from pasture_tools.trial.run import Job, _check_server
from pasture_tools.trial.server import Pause
from pasture_tools.trial.trial import describe_interpreter, schedule

MakeRun = Callable[..., Run]


class Stage:
    """Plays the runs of a trial and remembers what was asked of it."""

    def __init__(self, make_run: MakeRun, answer: Callable[[Job, int], str], **other: Any) -> None:
        self.make_run = make_run
        self.answer = answer
        self.other = other
        self.jobs: list[Job] = []
        self.events: list[Event] = []

    def run_one(self, job: Job, emit: OnEvent, pause: Pause) -> Run:
        pause(0)
        self.jobs.append(job)
        body = self.answer(job, len(self.jobs))
        return self.make_run(
            job.policy,
            round=job.round,
            workers=job.plan.workers,
            requests=job.requests,
            answers={"GET /": UrlAnswers({200: 5}, {body: 5})},
            **self.other,
        )

    def try_out(self, **plan: Any) -> TrialResult:
        return run_trial(
            TrialPlan(app="site:app", **plan), on_event=self.events.append, run_one=self.run_one
        )


@pytest.fixture(autouse=True)
def server_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pasture_tools.trial.trial.require_server", lambda plan: None)


@pytest.fixture
def stage(make_run: MakeRun) -> Stage:
    return Stage(make_run, lambda job, number: "same")


def test_each_policy_is_run_once_in_the_order_of_the_plan(stage: Stage) -> None:
    result = stage.try_out(policies=("seal", "stock"))

    assert [job.policy for job in stage.jobs] == ["seal", "stock"]
    assert [p.policy for p in result.policies] == ["seal", "stock"]
    assert result.answers_agree
    assert result.bodies.whole == 1


def test_rounds_turn_the_order_around() -> None:
    plan = TrialPlan(app="a", policies=("stock", "freeze", "seal"), rounds=3)

    names = [policy for _, policy in schedule(plan)]

    assert names == [
        "stock",
        "freeze",
        "seal",
        "seal",
        "freeze",
        "stock",
        "stock",
        "freeze",
        "seal",
    ]


def test_a_difference_is_confirmed_by_a_second_run_of_the_reference(make_run: MakeRun) -> None:
    stage = Stage(make_run, lambda job, number: job.policy)

    result = stage.try_out(policies=("stock", "freeze", "seal"), requests=1000)

    assert [job.policy for job in stage.jobs] == ["stock", "freeze", "seal", "stock"]
    assert stage.jobs[-1].requests < 1000
    assert [bool(p.disagreements) for p in result.policies] == [False, True, True]
    assert Started("stock", None, "again, since answers of 1 URL differ") in stage.events


def test_what_changes_with_each_start_is_no_difference(make_run: MakeRun) -> None:
    stage = Stage(make_run, lambda job, number: f"start {number}")

    result = stage.try_out(policies=("stock", "seal"))

    assert result.answers_agree
    assert result.bodies.whole == 0


def test_rounds_of_the_reference_confirm_each_other(make_run: MakeRun) -> None:
    stage = Stage(make_run, lambda job, number: f"start {number}")

    assert stage.try_out(policies=("stock", "seal"), rounds=2).answers_agree
    assert len(stage.jobs) == 4


def test_each_run_has_an_empty_directory_that_is_gone_at_the_end(stage: Stage) -> None:
    contents: list[list[Path]] = []
    run_one = stage.run_one

    def look(job: Job, emit: OnEvent, pause: Pause) -> Run:
        contents.append(list(job.directory.iterdir()))
        return run_one(job, emit, pause)

    run_trial(TrialPlan(app="a", policies=("stock", "seal"), rounds=2), run_one=look)

    assert contents == [[], [], [], []]
    assert len({job.directory for job in stage.jobs}) == 4
    assert not any(job.directory.exists() for job in stage.jobs)


def test_logs_stay_where_the_user_wants_them(stage: Stage, tmp_path: Path) -> None:
    stage.try_out(policies=("stock",), log_dir=tmp_path / "new")

    assert (tmp_path / "new").is_dir()
    assert stage.jobs[0].log_prefix == tmp_path / "new" / "stock-1"


def test_a_log_directory_that_cannot_be_made_is_refused(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")

    with pytest.raises(UsageError, match="logs"):
        stage.try_out(log_dir=file)


def test_an_error_of_a_run_ends_the_trial(make_run: MakeRun) -> None:
    def fail(job: Job, number: int) -> str:
        raise ServerFailed("it fell over")

    stage = Stage(make_run, fail)

    with pytest.raises(ServerFailed):
        stage.try_out()
    assert len(stage.jobs) == 1


def _failing(*which: int) -> Callable[[Job, int], str]:
    def answer(job: Job, number: int) -> str:
        if number in which:
            raise ServerFailed(f"{job.policy} fell over", hint="its log")
        return "same"

    return answer


def _stopping(stop: threading.Event, after: int) -> Callable[[Job, int], str]:
    def answer(job: Job, number: int) -> str:
        if number == after:
            stop.set()
        return "same"

    return answer


def test_a_run_that_ended_is_kept_when_a_later_one_fails(make_run: MakeRun) -> None:
    stage = Stage(make_run, _failing(2))
    plan = TrialPlan(app="site:app", policies=("stock", "freeze", "seal"))

    result = attempt_trial(plan, run_one=stage.run_one)

    assert [job.policy for job in stage.jobs] == ["stock", "freeze", "seal"]
    assert [p.policy for p in result.policies] == ["stock", "seal"]
    assert result.missing == {"freeze": "failed: freeze fell over"}
    assert not result.interrupted
    with pytest.raises(ServerFailed, match="freeze fell over"):
        run_trial(plan, run_one=Stage(make_run, _failing(2)).run_one)


def test_a_disk_that_is_full_in_a_later_run_loses_none(make_run: MakeRun) -> None:
    def answer(job: Job, number: int) -> str:
        if number == 2:
            raise OSError(28, "No space left on device")
        return "same"

    stage = Stage(make_run, answer)

    result = attempt_trial(TrialPlan(app="a", policies=("stock", "seal")), run_one=stage.run_one)

    assert [p.policy for p in result.policies] == ["stock"]
    assert "No space left" in result.missing["seal"]
    assert "TMPDIR" in result.failures[0].error.hint


def test_a_policy_that_failed_is_not_run_again_and_keeps_its_earlier_rounds(
    make_run: MakeRun,
) -> None:
    stage = Stage(make_run, _failing(4))  # stock, seal, seal, stock: turned around
    plan = TrialPlan(app="a", policies=("stock", "seal"), rounds=3)

    result = attempt_trial(plan, run_one=stage.run_one)

    assert [len(p.runs) for p in result.policies] == [1, 3]
    assert result.missing == {}


def test_the_first_policy_there_is_stands_in_for_a_reference_that_failed(
    make_run: MakeRun,
) -> None:
    stage = Stage(make_run, _failing(2))
    plan = TrialPlan(app="a", policies=("seal", "stock", "freeze"))

    result = attempt_trial(plan, run_one=stage.run_one)

    assert result.reference.policy == "seal"
    assert as_document(result)["reference"] == "seal"


def test_a_policy_that_fails_first_does_not_keep_the_others_from_running(
    make_run: MakeRun,
) -> None:
    stage = Stage(make_run, _failing(1))

    result = attempt_trial(TrialPlan(app="a", policies=("seal", "stock")), run_one=stage.run_one)

    assert [p.policy for p in result.policies] == ["stock"]
    with pytest.raises(ServerFailed, match="seal"):
        attempt_trial(
            TrialPlan(app="a", policies=("seal", "freeze")),
            run_one=Stage(make_run, _failing(1, 2)).run_one,
        )


def test_runs_that_ended_are_kept_when_the_user_interrupts(make_run: MakeRun) -> None:
    stop = threading.Event()
    stage = Stage(make_run, _stopping(stop, after=2))
    plan = TrialPlan(app="a", policies=("stock", "freeze", "seal"))

    result = attempt_trial(plan, stop=stop, run_one=stage.run_one)

    assert result.interrupted
    assert [p.policy for p in result.policies] == ["stock", "freeze"]
    assert result.missing == {"seal": "not run"}


def test_an_interrupt_while_differences_are_confirmed_keeps_all_runs(make_run: MakeRun) -> None:
    stop = threading.Event()
    different = Stage(make_run, lambda job, number: job.policy)

    def run_one(job: Job, emit: OnEvent, pause: Pause) -> Run:
        run = different.run_one(job, emit, pause)
        if len(different.jobs) == 2:
            stop.set()
        return run

    plan = TrialPlan(app="a", policies=("stock", "seal"))
    result = attempt_trial(plan, stop=stop, run_one=run_one)

    assert result.interrupted
    assert [len(p.runs) for p in result.policies] == [1, 1]
    assert any("did not run again" in note for note in result.notes)


def test_requests_that_timed_out_are_noted_as_such_and_are_no_difference(
    make_run: MakeRun,
) -> None:
    late = {"GET /": UrlAnswers({200: 4}, {"same": 4}, timeouts=2)}
    stage = Stage(make_run, lambda job, number: "same")

    def run_one(job: Job, emit: OnEvent, pause: Pause) -> Run:
        run = stage.run_one(job, emit, pause)
        return replace(run, answers=late) if job.policy == "seal" else run

    result = attempt_trial(TrialPlan(app="a", policies=("stock", "seal")), run_one=run_one)

    assert result.answers_agree
    assert "seal: 2 requests timed out, with no answer (GET /) within 60 s" in result.notes


@pytest.mark.parametrize(
    ("statuses", "headers", "noted"),
    [
        (({200: 4}, {200: 4}, {404: 4}), (), ""),
        (({302: 4}, {200: 4}, {200: 4}), (("Cookie", "s=1"),), ""),
        (({302: 4}, {404: 4}, {200: 4}), (("Cookie", "s=1"),), "302, 404: has the session in the"),
        (({302: 4}, {404: 4}, {200: 4}), (), "2 of 3 URLs answered only 302, 404"),
        (({401: 4}, {200: 4}, {200: 4}), (("Cookie", "s=1"),), "401: has the session in"),
        (({401: 4}, {200: 4}, {200: 4}), (), "1 of 3 URLs answered only 401: do they"),
    ],
)
def test_a_load_that_is_turned_away_is_noted_once(
    make_run: MakeRun, statuses: Any, headers: Any, noted: str
) -> None:
    answers = {f"GET /{n}": UrlAnswers(found, {"same": 4}) for n, found in enumerate(statuses)}
    stage = Stage(make_run, lambda job, number: "same")

    def run_one(job: Job, emit: OnEvent, pause: Pause) -> Run:
        return replace(stage.run_one(job, emit, pause), answers=answers)

    plan = TrialPlan(app="a", policies=("stock", "seal"), headers=headers)
    notes = attempt_trial(plan, run_one=run_one).notes

    assert len(notes) == bool(noted)
    assert noted in "".join(notes)


def test_requests_that_failed_are_noted_with_their_urls(make_run: MakeRun) -> None:
    answers = {"GET /": UrlAnswers({200: 9}, {"a": 9}), "GET /b": UrlAnswers({200: 3, 503: 2}, {})}
    stage = Stage(make_run, lambda job, number: "same")

    def run_one(job: Job, emit: OnEvent, pause: Pause) -> Run:
        run = replace(stage.run_one(job, emit, pause), answers=answers)
        return replace(run, load=replace(run.load, failures=2))

    result = attempt_trial(TrialPlan(app="a", policies=("stock",)), run_one=run_one)
    assert result.notes == ("stock: 2 requests failed (GET /b: 503)",)


def test_answers_that_differ_with_each_start_are_said_to_do_so(stage: Stage) -> None:
    bodies = iter(("one", "two", "three"))
    stage.answer = lambda job, number: next(bodies)
    stage.try_out(policies=("stock", "seal"))
    said = [e.text for e in stage.events if isinstance(e, Started | Finished) and e.text]
    assert said[-2] == "again, since answers of 1 URL differ"
    assert said[-1] == "its own answers differ from run to run"


def test_a_trial_that_is_stopped_is_interrupted_where_it_waits(stage: Stage) -> None:
    stop = threading.Event()
    stop.set()

    with pytest.raises(KeyboardInterrupt):
        run_trial(TrialPlan(app="a"), stop=stop, run_one=stage.run_one)
    assert stage.jobs == []


def test_what_limits_the_figures_is_noted(make_run: MakeRun) -> None:
    shutdown = Shutdown(90.0, 100, 100, samples=1, workers_seconds=90.0, by_itself=False)
    stage = Stage(make_run, lambda job, number: "same", shutdown=shutdown)

    (note,) = stage.try_out(policies=("stock",)).notes

    assert "killed" in note


def test_the_interpreter_of_the_server_is_asked() -> None:
    described = describe_interpreter()

    assert described["version"] == sys.version.split()[0].rstrip("+")


@pytest.mark.parametrize(
    ("program", "reason"), [("sleep 60 &", "into the background"), (":", "under stock ended")]
)
def test_a_server_whose_first_process_ends_under_load_may_go_on_in_the_background(
    tmp_path: Path, program: str, reason: str
) -> None:
    job: Any = SimpleNamespace(policy="stock")
    with Group(["sh", "-c", program], log=tmp_path / "log", env={}) as group:
        group.wait()
        with pytest.raises(ServerFailed, match=reason):
            _check_server(job, group)
