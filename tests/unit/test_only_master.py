"""Which server is meant where the user names none."""

import os

import pytest

from pasture.errors import UsageError
from pasture.proc import tree


def test_the_only_pre_fork_server_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "find_masters", lambda: [42])
    assert tree.only_master("top") == 42


def test_without_a_server_the_hint_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "find_masters", list)
    with pytest.raises(UsageError, match="no pre-fork server") as raised:
        tree.only_master("explain")
    assert raised.value.hint == "pasture explain PID, of a worker or its master"


def test_several_are_listed_with_workers_memory_and_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tree, "find_masters", lambda: [os.getpid(), 1 << 30])
    with pytest.raises(UsageError, match="2 pre-fork servers") as raised:
        tree.only_master("top")
    first, own, ended = raised.value.hint.splitlines()
    assert first == "pasture top PID, of one of these:"
    assert own.split()[:4] == [str(os.getpid()), "0", "workers,", "PSS"]
    assert "python" in own
    assert ended.split() == [str(1 << 30), "0", "workers"]
