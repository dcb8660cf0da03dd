"""Which two processes are compared, on a tree of processes that is made up."""

from types import SimpleNamespace

import pytest

from pasture.errors import ProcessEnded, UsageError
from pasture.proc import smaps, tree
from pasture.proc.maps import Mapping
from pasture.scoreboard import reader
from pasture_tools.explain import sources

FORKED = {10: (11, 12, 13), 50: ()}
PARENT = {11: 10, 12: 10, 13: 10, 50: 1}
PRIVATE_BYTES = {11: 5, 12: 9, 13: 99, 50: 1}


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "require_memory_of", lambda pid: None)
    monkeypatch.setattr(sources, "mappings_of", lambda pid: ())
    monkeypatch.setattr(tree, "forked_workers", lambda pid: FORKED.get(pid, ()))
    monkeypatch.setattr(tree, "read_stat", lambda pid: SimpleNamespace(parent_pid=PARENT[pid]))
    roles = {11: "worker", 12: "worker", 13: "mold"}
    rows = {pid: SimpleNamespace(role=role) for pid, role in roles.items()}
    monkeypatch.setattr(reader, "read_entries", lambda pid: rows)
    monkeypatch.setattr(
        smaps, "read_memory", lambda pid: SimpleNamespace(private_bytes=PRIVATE_BYTES[pid])
    )


def test_a_master_is_compared_with_a_worker_that_is_chosen_later() -> None:
    assert sources.find_pair(10) == (10, None)


def test_a_worker_is_compared_with_its_master() -> None:
    assert sources.find_pair(12) == (10, 12)


@pytest.mark.parametrize(
    ("pid", "file", "words"),
    [
        (50, "/memfd:other (deleted)", "process 50 shares its memory with no process"),
        (12, "/usr/bin/bash", "process 12 does not run Python"),
    ],
)
def test_a_process_that_no_server_forked_has_nothing_to_compare(
    monkeypatch: pytest.MonkeyPatch, pid: int, file: str, words: str
) -> None:
    monkeypatch.setattr(sources, "mappings_of", lambda pid: (Mapping(0, 4096, "rw-p", file),))
    with pytest.raises(UsageError, match=words) as raised:
        sources.find_pair(pid)
    assert "give the pid of a worker" in raised.value.hint


def test_the_largest_worker_is_chosen_and_no_mold() -> None:
    assert sources.largest_worker(10) == 12


def test_a_worker_that_ends_meanwhile_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {11: SimpleNamespace(private_bytes=5)}
    monkeypatch.setattr(smaps, "read_memory", left.get)
    assert sources.largest_worker(10) == 11


def test_a_master_without_workers_is_an_error_that_says_to_wait() -> None:
    with pytest.raises(ProcessEnded, match="process 50 has no workers"):
        sources.largest_worker(50)
