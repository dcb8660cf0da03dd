"""`make soak-engines`: what is kept, what is compared, and in which order faults come."""

import random
from pathlib import Path

from benchmarks.faults.engines import KINDS
from benchmarks.faults.jobs import Done
from benchmarks.faults.life import ENDING, FAULTS, RELOAD, plan
from benchmarks.faults.tally import KILLING, Tally, complaints, store
from matrix.engines.engine import Variant


def tally(**counts: dict[str, int]) -> Tally:
    found = Tally(10.0, 10.0, 28)
    for name, by_fault in counts.items():
        getattr(found, name).update(by_fault)
    return found


def test_what_is_kept_reads_as_it_was_written(tmp_path: Path) -> None:
    written: dict[Variant, Tally] = {
        "theirs": tally(lost={"TERM": 2}),
        "sealed": tally(faults={"reload": 5}),
    }
    written["sealed"].left.append("a process")
    store(tmp_path).keep("celery", written)
    assert store(tmp_path).kept("celery") == written
    assert store(tmp_path).kept("dask") is None


def test_a_loss_that_the_engine_does_not_have_by_itself_is_a_complaint() -> None:
    theirs, sealed = tally(lost={"reload": 1}), tally(lost={"reload": 2, "TERM": 1})
    assert complaints(theirs, sealed) == ["lost after TERM: 1, without pasture 0"]


def test_jobs_that_a_killed_process_had_in_hand_are_chance_up_to_three_a_fault() -> None:
    faults = {"kill a process": 2}
    few = tally(faults=faults, lost={"kill a process": 6})
    many = tally(faults=faults, lost={"kill a process": 7})
    assert complaints(tally(faults=faults), few) == []
    assert complaints(tally(faults=faults), many) == [
        "lost after kill a process: 7, without pasture 0"
    ]


def test_a_process_left_behind_by_the_sealed_engine_alone_is_a_complaint() -> None:
    sealed = tally()
    sealed.left.append("TERM: 7 (python) S 1")
    assert complaints(tally(), sealed) == ["left behind: TERM: 7 (python) S 1"]


def test_each_fault_comes_once_before_any_comes_again_and_reloads_where_there_are_any() -> None:
    for kind in KINDS:
        order = plan(kind, random.Random(1))
        expected = {*FAULTS, *ENDING, *([RELOAD] if kind.reload else [])}
        assert {next(order) for _ in expected} == expected
    assert set(KILLING) < {*FAULTS, *ENDING}


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "done"
    done = Done(path)
    done.look()
    path.write_text("1 10\n2 1")
    done.look()
    assert done.times == {1: 1}
    path.write_text("1 10\n2 11\n1 12\n")
    done.look()
    assert done.times == {1: 2, 2: 1}
