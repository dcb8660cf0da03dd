"""The child that shows which threads are there again: what its fork leaves, and how often it is."""

import os
import threading
from collections.abc import Iterator

import pytest

from pasture.fork_safety import comeback, held
from pasture.fork_safety.open_files import open_files
from pasture.reasons import Reason


@pytest.fixture
def waiting() -> Iterator[threading.Thread]:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="kept waiting")
    yield thread
    end.set()
    thread.join()


def test_a_fork_that_the_system_refuses_leaves_no_file_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    before = [number for number, _ in open_files()]
    comeback.try_once()
    assert [number for number, _ in open_files()] == before


def test_one_child_is_forked_however_often_an_import_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, waiting: threading.Thread
) -> None:
    forks: list[bool] = []
    monkeypatch.setattr(comeback, "try_once", lambda: forks.append(True))
    watch = held.Import()
    waiting.start()
    for _ in range(2):
        assert Reason.THREAD in [hazard.kind for hazard in watch.hazards()]
    watch.end()
    assert forks == [True]
