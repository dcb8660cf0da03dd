"""Runs of the lab: what is kept, what is run again, and what a failure takes with it."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pasture.errors import NotMeasurable, ServerFailed
from pasture_lab.engine import Options, Store, run_lab
from pasture_lab.engine.experiment import Bench, Experiment, Part, Row
from pasture_lab.engine.figures import Measured, curve
from pasture_lab.engine.rule import Rule, Verdict
from pasture_tools.display.progress import Event, Finished, Started

TWICE = Rule(says="", of="second.size", to="first.size", least=1.5)


class Counting:
    """An experiment of two parts that counts its runs, and fails where a test says so."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.experiment = Experiment(
            name="counting",
            title="",
            source="",
            setting="",
            differences=(),
            rows=(Row(what="", published="2", shows="{second.size}", rule=TWICE),),
            parts=lambda options: (self.part("first", 1.0), self.part("second", 2.0)),
        )

    def part(self, name: str, size: float) -> Part:
        def measure(bench: Bench) -> Measured:
            self.runs.append(name)
            assert bench.directory.is_dir()
            if name in self.failing:
                raise self.failing[name]
            return Measured({"size": size}, {"line": curve([0, 1], [0, size])}, (f"{name}!",))

        return Part(name, 1.0, measure, {"size": size})


@pytest.fixture
def counting() -> Counting:
    return Counting()


def test_a_finished_run_is_kept_and_not_run_again(counting: Counting, tmp_path: Path) -> None:
    first = run_lab([counting.experiment], Options(), Store(tmp_path))
    events: list[Event] = []
    second = run_lab([counting.experiment], Options(), Store(tmp_path), on_event=events.append)
    assert counting.runs == ["first", "second"]
    assert events == [
        Started("2 runs, 2 of them kept from before", None, "about nothing to run"),
        Finished("counting first", "kept"),
        Finished("counting second", "kept"),
        Finished("2 runs, 2 of them kept from before"),
    ]
    assert second.results[0].figures == first.results[0].figures
    assert second.results[0].curves == first.results[0].curves
    assert second.results[0].notes == ("first: first!", "second: second!")
    assert second.results[0].verdict is Verdict.REPRODUCED


def test_again_runs_what_is_kept(counting: Counting, tmp_path: Path) -> None:
    for _ in range(2):
        run_lab([counting.experiment], Options(), Store(tmp_path), again=True)
    assert counting.runs == ["first", "second"] * 2


def test_a_quick_result_does_not_stand_for_a_full_one(counting: Counting, tmp_path: Path) -> None:
    run_lab([counting.experiment], Options(quick=True), Store(tmp_path))
    run_lab([counting.experiment], Options(quick=False), Store(tmp_path))
    assert counting.runs == ["first", "second"] * 2


def test_a_run_that_is_asked_otherwise_is_run(counting: Counting, tmp_path: Path) -> None:
    run_lab([counting.experiment], Options(), Store(tmp_path))
    other = replace(counting.experiment, parts=lambda options: (counting.part("first", 1.5),))
    run_lab([other], Options(), Store(tmp_path))
    assert counting.runs == ["first", "second", "first"]


def test_a_torn_result_is_run_again(counting: Counting, tmp_path: Path) -> None:
    run_lab([counting.experiment], Options(), Store(tmp_path))
    (tmp_path / "full" / "counting.first.json").write_text('{"question"')
    run_lab([counting.experiment], Options(), Store(tmp_path))
    assert counting.runs == ["first", "second", "first"]


def test_what_this_machine_lacks_is_a_gap_with_its_hint_and_is_tried_again(
    counting: Counting, tmp_path: Path
) -> None:
    counting.failing["second"] = NotMeasurable(
        "httperf is not installed", hint="apt install httperf"
    )
    result = run_lab([counting.experiment], Options(), Store(tmp_path)).results[0]
    assert result.gaps == {"second": "httperf is not installed: apt install httperf"}
    assert result.failed == ()
    assert result.verdict is Verdict.NOT_MEASURABLE
    assert result.figures["first.size"] == 1.0
    counting.failing.clear()
    result = run_lab([counting.experiment], Options(), Store(tmp_path)).results[0]
    assert counting.runs == ["first", "second", "second"]
    assert result.verdict is Verdict.REPRODUCED


def test_what_went_wrong_is_distinguished_from_what_is_missing(
    counting: Counting, tmp_path: Path
) -> None:
    counting.failing["first"] = ServerFailed("the server ended", hint="its log\n    says")
    result = run_lab([counting.experiment], Options(), Store(tmp_path)).results[0]
    assert result.failed == ("first",)
    assert result.gaps == {"first": "the server ended: its log"}
    assert counting.runs == ["first", "second"]


def test_an_interrupt_keeps_what_was_finished(counting: Counting, tmp_path: Path) -> None:
    stop = threading.Event()

    def take(event: Event) -> None:
        if isinstance(event, Finished):
            stop.set()

    with pytest.raises(KeyboardInterrupt):
        run_lab([counting.experiment], Options(), Store(tmp_path), on_event=take, stop=stop)
    assert counting.runs == ["first"]
    run_lab([counting.experiment], Options(), Store(tmp_path))
    assert counting.runs == ["first", "second"]


def test_a_module_that_is_missing_is_a_gap(counting: Counting, tmp_path: Path) -> None:
    needy = replace(counting.experiment, needs=("no_such_module",))
    result = run_lab([needy], Options(), Store(tmp_path)).results[0]
    assert "no_such_module not installed: pip install 'pasture[lab]'" in result.gaps.values()
    assert counting.runs == []
