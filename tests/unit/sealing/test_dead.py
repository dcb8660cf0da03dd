"""The sentence on what earlier seals keep, and who shows it."""

from types import SimpleNamespace

import pytest

from pasture.proc.own_memory import OwnMemory
from pasture.sealing import dead
from pasture.sealing.memory_types import TypeCount


def extension(monkeypatch: pytest.MonkeyPatch, heap_bytes: int, *rows: object) -> None:
    found = SimpleNamespace(dead_objects=lambda: list(rows))
    monkeypatch.setattr(dead, "native", lambda: found)
    monkeypatch.setattr(dead, "read_own_memory", lambda: OwnMemory(2000, heap_bytes))


def test_a_tenth_is_counted_and_more_has_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    extension(monkeypatch, 1000, (int, 4, 60), (dict, 2, 40))
    counts, types, problems = dead.look()
    assert counts == {"dead_bytes": 100}
    assert types == (TypeCount("builtins.int", 4, 60), TypeCount("builtins.dict", 2, 40))
    assert problems == ()
    extension(monkeypatch, 1000, (int, 4, 101))
    assert len(dead.look()[2]) == 1


def test_without_an_earlier_seal_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    extension(monkeypatch, 0)
    assert dead.look() == ({}, (), ())


def test_a_seal_goes_on_where_there_is_no_memory_to_find_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails() -> None:
        raise MemoryError

    monkeypatch.setattr(dead, "native", lambda: SimpleNamespace(dead_objects=fails))
    assert dead.look() == ({}, (), ())
