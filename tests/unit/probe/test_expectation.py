"""Which requests a probe sends, and which answers count as worse."""

import pytest

from pasture.probe.expectation import Expectation, expectations
from pasture.warmup.requests import Request
from pasture.warmup.warmup import Answer

HOME, FORM = Request("GET", "/"), Request("POST", "/form")
EXPECTED = Expectation(HOME, 200, frozenset({"1 tag"}), 0.1, is_steady=True)


def answer(status: int | None = 200, skeleton: str = "1 tag", error: str | None = None) -> Answer:
    return Answer(HOME, status, error, 0.1, skeleton=skeleton)


def test_safe_requests_that_were_answered_well_are_sent_once_each() -> None:
    posted = Answer(FORM, 200, None, 0.1)
    assert expectations([HOME, FORM, HOME], [answer(), posted, answer()]) == (EXPECTED,)


@pytest.mark.parametrize(
    "answers",
    [
        [answer(500)],
        [answer(None, error="ValueError")],
        [answer(500, error="ValueError")],
        [answer(200), answer(302)],
        [Answer(FORM, 200, None, 0.1)],
    ],
)
def test_a_request_that_the_parent_did_not_answer_well_is_not_sent(answers: list[Answer]) -> None:
    assert expectations([HOME], answers) == ()


def test_without_any_answer_all_safe_requests_are_sent() -> None:
    assert expectations([HOME, FORM], []) == (Expectation(HOME),)


def test_each_structure_that_the_parent_gave_is_right() -> None:
    (expected,) = expectations([HOME], [answer(), answer(skeleton="2 tags")])
    assert expected.differs(200, ["2 tags"]) is expected.differs(200, ["1 tag"]) is None
    assert expected.differs(200, ["3 tags"]) == "the body is 3 tags instead of 1 tag"


@pytest.mark.parametrize(
    ("status", "skeletons", "words"),
    [
        (200, ["1 tag"], None),
        (200, ["2 tags"], "the body is 2 tags instead of 1 tag"),
        (200, ["2 tags", "3 tags"], None),
        (500, ["1 tag"], "answers 500 instead of 200"),
        (302, ["1 tag"], "answers 302 instead of 200"),
        (429, ["no"], None),
    ],
)
def test_what_is_worse_than_in_the_parent_is_a_difference(
    status: int, skeletons: list[str], words: str | None
) -> None:
    assert EXPECTED.differs(status, skeletons) == words


@pytest.mark.parametrize(
    ("answers", "sure"),
    [
        ([answer()], False),
        ([answer(), answer(skeleton="2 tags")], False),
        ([answer(), answer()], True),
    ],
)
def test_another_body_alone_is_sure_where_the_parent_gave_one_twice(
    answers: list[Answer], sure: bool
) -> None:
    (expected,) = expectations([HOME], answers)
    assert expected.is_sure(200, ["3 tags"]) == sure
    assert expected.is_sure(500, []) and expected.is_sure(302, ["no"])


def test_another_status_is_a_doubt_where_the_warm_up_had_not_started_the_application() -> None:
    assert EXPECTED.differs(401, []) == "answers 401 instead of 200"
    assert not EXPECTED.is_sure(401, [])


def test_a_page_that_was_not_found_before_the_application_started_is_no_difference() -> None:
    (expected,) = expectations([HOME], [answer(404)])
    assert expected.differs(200, []) is None
    assert expected.differs(500, []) == "answers 500 instead of 404"


def test_without_a_reference_a_servers_error_alone_is_a_difference() -> None:
    unknown = Expectation(HOME)
    assert unknown.differs(404, ["1 tag"]) is None
    assert unknown.differs(503, ["1 tag"]) == "answers 503"


@pytest.mark.parametrize("status", [200, 302, 404, 500])
def test_of_a_request_without_a_reference_an_error_alone_is_said_and_is_not_sure(
    status: int,
) -> None:
    alone = Expectation(HOME, has_reference=False)
    assert alone.differs(status, ["1 tag"]) == ("answers 500" if status == 500 else None)
    assert not alone.is_sure(status, ["1 tag"], has_raised=True)
