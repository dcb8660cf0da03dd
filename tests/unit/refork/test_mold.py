"""What a mold does to its heap, and what keeps a worker from becoming one."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from pasture.fork_safety import close
from pasture.refork.channel import open_channel
from pasture.refork.mold import policy_of_molds
from pasture.sealing.policy import POLICIES
from pasture.servers.gunicorn.refork import promotion


def test_a_mold_gathers_code_only_where_it_was_traced() -> None:
    assert "gather-code" in policy_of_molds(POLICIES["refork"]).heap
    assert "trace-code" not in policy_of_molds(POLICIES["refork"]).heap
    assert "gather-code" not in policy_of_molds(POLICIES["seal"]).heap
    assert policy_of_molds(POLICIES["refork"]).prepare == ()


def test_an_application_can_say_that_it_must_not_be_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(close, "_unsafe", None)
    assert close.unsafe_reason() is None
    close.fork_unsafe("CUDA is initialized")
    assert close.unsafe_reason() == "CUDA is initialized"


class Worker:
    """What is used of gunicorn's."""

    ppid = 1
    sockets: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.ended_by: list[int] = []

    def run(self) -> None:
        raise NotImplementedError

    def handle_exit(self, number: int, frame: object) -> None:
        self.ended_by.append(number)


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals that were sent."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *words: sent.append(words))
    return sent


def test_a_worker_at_its_limit_wakes_the_arbiter_once_for_each_limit(
    monkeypatch: pytest.MonkeyPatch, woken: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(close, "_unsafe", None)
    row: Any = SimpleNamespace(requests=0, limit=3)
    worker = promotion.Promotable(Worker(), open_channel()[0], row)
    for row.requests in range(1, 6):
        worker.has_answered()
    assert woken == [(1, promotion.WAKE)]
    row.limit, row.requests = 6, 6
    worker.has_answered()
    assert woken == [(1, promotion.WAKE)] * 2


def test_a_worker_that_must_not_be_forked_shows_it_after_its_next_request(
    monkeypatch: pytest.MonkeyPatch, woken: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(close, "_unsafe", "CUDA is initialized")
    shown: list[bool] = []
    row: Any = SimpleNamespace(requests=1, limit=9, show_unsafe=lambda: shown.append(True))
    promotion.Promotable(Worker(), open_channel()[0], row).has_answered()
    assert shown == [True] and woken == []


def test_a_promotion_ends_the_main_loop_and_later_messages_are_left_to_the_mold() -> None:
    arbiter, end = open_channel()
    gunicorn = Worker()
    row: Any = SimpleNamespace()
    worker = promotion.Promotable(gunicorn, end, row)
    arbiter.send("unheard of")
    arbiter.send("promote", generation=4)
    arbiter.send("spawn", age=1)
    worker._look(promotion.LOOK, None)
    assert (worker.generation, gunicorn.ended_by) == (4, [signal.SIGTERM])
    left = end.receive()
    assert left is not None and left.word == "spawn"


def test_a_signal_without_a_message_changes_nothing() -> None:
    arbiter, end = open_channel()
    row: Any = SimpleNamespace()
    worker = promotion.Promotable(Worker(), end, row)
    worker._look(promotion.LOOK, None)
    arbiter.close()
    worker._look(promotion.LOOK, None)
    assert worker.generation is None


def test_an_arbiter_that_is_gone_or_of_another_user_is_not_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    row: Any = SimpleNamespace()
    promotion.Promotable(Worker(), open_channel()[0], row).wake_arbiter()
