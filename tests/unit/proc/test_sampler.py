"""Series that stay bounded, and readings that are thrown away."""

import pytest

from pasture.proc import smaps
from pasture.proc.smaps import Memory
from pasture_tools.proc import sampler
from pasture_tools.proc.sampler import ProcessMemory, Sample, Series


def _memory(size: int) -> Memory:
    return Memory(size, size, 0, size, 0, swap_pss_bytes=1)


def _sample(seconds: float) -> Sample:
    return Sample(seconds, 0, ProcessMemory(1, _memory(10)), (ProcessMemory(2, _memory(5)),))


def test_the_total_counts_master_and_workers() -> None:
    assert _sample(0).total_pss_bytes == 15
    assert _sample(0).swap_pss_bytes == 2


def test_the_first_sample_is_due_at_once_and_the_next_after_a_step() -> None:
    series = Series(step_s=0.5)

    assert series.is_due(0.0)
    series.add(_sample(0.0))

    assert not series.is_due(0.49)
    assert series.is_due(0.5)


def test_costly_samples_are_taken_less_often() -> None:
    series = Series(step_s=0.5)

    series.add(_sample(1.0), cost_s=0.2)

    assert not series.is_due(4.9)
    assert series.is_due(5.0)


def test_a_full_series_keeps_its_first_sample_and_every_second_one() -> None:
    series = Series(step_s=1.0, limit=4)

    for second in range(5):
        series.add(_sample(float(second)))

    assert [s.seconds for s in series.samples] == [0.0, 2.0, 4.0]
    assert series.step_s == 2.0


def test_a_long_series_stays_within_its_limit_and_ends_with_the_newest() -> None:
    series = Series(step_s=1.0, limit=10)

    for second in range(1000):
        series.add(_sample(float(second)))

    assert len(series.samples) <= 10
    assert (series.samples[0].seconds, series.samples[-1].seconds) == (0.0, 999.0)


def _answer(monkeypatch: pytest.MonkeyPatch, alive_after: set[int]) -> None:
    monkeypatch.setattr(smaps, "read_memory", lambda pid: _memory(pid) if pid < 10 else None)
    monkeypatch.setattr(smaps, "has_memory", lambda pid: pid in alive_after)


def test_processes_are_read_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(monkeypatch, alive_after={1, 2})

    read = sampler.read_together((2, 1))

    assert read is not None
    assert [process.pid for process in read] == [2, 1]


def test_a_reading_with_a_process_that_is_gone_is_thrown_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _answer(monkeypatch, alive_after={1})

    assert sampler.read_together((1, 10)) is None


def test_a_reading_during_which_a_process_ends_is_thrown_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _answer(monkeypatch, alive_after={2})

    assert sampler.read_together((1, 2)) is None
