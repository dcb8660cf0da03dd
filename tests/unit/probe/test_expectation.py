"""Which requests a probe sends, how long they may take, and which statuses are another."""

import pytest

from pasture.probe.expectation import LIMIT_S, Expectation, expectations, limit_s
from pasture.warmup.requests import Request
from pasture.warmup.warmup import Answer

HOME = Request("GET", "/")


def answer(status: int | None = 200, error: str | None = None, seconds: float = 0.1) -> Answer:
    return Answer(HOME, status, error, seconds)


def test_a_request_is_sent_once_however_often_the_list_has_it() -> None:
    answers = [answer(), answer(302, seconds=0.3), answer()]
    assert expectations(answers) == (Expectation(HOME, frozenset((200, 302)), 0.3),)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "DELETE"])
def test_only_what_reads_is_sent(method: str) -> None:
    sent = expectations([Answer(Request(method, "/"), 200, None, 0.1)])
    assert len(sent) == (method in ("GET", "HEAD"))


@pytest.mark.parametrize(
    "answers", [[answer(500)], [answer(None, "ValueError")], [answer(), answer(503)], []]
)
def test_a_request_that_failed_in_the_parent_is_not_sent(answers: list[Answer]) -> None:
    assert expectations(answers) == ()


def test_another_status_than_the_parents_is_named() -> None:
    (expected,) = expectations([answer(302), answer(200)])
    assert expected.differs(200) is expected.differs(302) is None
    assert expected.differs(410) == "GET / 410, not 200 or 302"


def test_a_step_may_take_twenty_times_what_it_took_and_a_short_one_longer() -> None:
    assert limit_s(1.0) == 20
    assert limit_s(0.0) == limit_s(0.1) == 2
    assert limit_s(3600.0) == limit_s(None) == LIMIT_S
