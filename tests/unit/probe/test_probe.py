"""The probe's side of the parent, without a fork: descriptors, and what it makes of answers."""

import errno
import json
import os
from typing import NoReturn

import pytest

from pasture.probe.expectation import Expectation
from pasture.probe.probe import ProbeReport, _Listener, probe
from pasture.probe.replay import DONE, END, HUNG
from pasture.warmup.requests import Request
from pasture.warmup.warmup import WarmUpReport

HOME = Request("GET", "/")
SEEN_ONCE = Expectation(HOME, 200, frozenset({"1 tag"}), 0.1)


def test_without_descriptors_there_is_no_probe_and_none_is_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pipe", refuse)
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    report = probe(WarmUpReport(), [SEEN_ONCE], lambda replay: None, limit_s=1)
    assert report.incomplete is not None and "Too many open files" in report.incomplete
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def report_of(expected: Expectation = SEEN_ONCE, **event: object) -> ProbeReport:
    """What the parent makes of one answer, by itself to a page that it has seen once."""
    listener = _Listener([expected], "")
    for one in ({"event": END, "step": str(HOME), **event}, {"event": DONE}):
        listener.take(json.dumps(one).encode() + b"\n")
    return listener.report(0)


def test_another_body_of_a_page_that_was_seen_once_is_a_doubt() -> None:
    report = report_of(status=200, skeletons=["2 tags"])
    assert report.differences == ()
    assert report.doubts == ("GET /: the body is 2 tags instead of 1 tag",)


def test_another_body_behind_which_an_exception_stands_is_a_difference() -> None:
    report = report_of(status=200, skeletons=["2 tags"], behind="ValueError")
    assert report.doubts == ()
    assert report.differences == ("GET /: the body is 2 tags instead of 1 tag, raised ValueError",)


@pytest.mark.parametrize("step", [str(HOME), "lifespan startup"])
def test_an_exception_is_a_difference_only_where_the_parent_has_answered(step: str) -> None:
    alone = Expectation(HOME, has_reference=False)
    known, unknown = (report_of(one, step=step, error="ValueError") for one in (SEEN_ONCE, alone))
    assert known.differences == unknown.doubts == (f"{step}: raises ValueError",)
    assert known.doubts == unknown.differences == ()


def test_after_a_step_that_hangs_nothing_counts() -> None:
    listener = _Listener([SEEN_ONCE], "")
    hung = {"event": HUNG, "step": str(HOME), "where": "app"}
    for one in (hung, {"event": END, "step": str(HOME), "error": "ValueError"}):
        listener.take(json.dumps(one).encode() + b"\n")
    assert listener.has_ended
    assert listener.report(0).differences == ("GET /: hung in app",)
