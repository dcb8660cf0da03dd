"""The probe's side of the parent, without a fork: descriptors, and what it makes of events."""

import errno
import gc
import json
import os
import signal
from typing import NoReturn

import pytest

from pasture.probe.probe import _Listener, probe
from pasture.probe.replay import ANSWER, BEGIN, DONE, FAILED
from pasture.warmup.warmup import WarmUpReport

STEP = (BEGIN, "GET /", 2.0)
ANSWERED = (ANSWER, None)


def test_without_descriptors_there_is_no_probe_and_none_is_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pipe", refuse)
    gc.collect()  # or what other tests left is closed meanwhile
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(OSError, match="Too many open files"):
        probe(WarmUpReport(), [], lambda replay: None)
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def heard(*events: tuple[object, ...]) -> _Listener:
    """What the parent knows by these events, however they are cut."""
    listener = _Listener(0.0)
    data = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    for at in range(0, len(data), 7):
        listener.take(data[at : at + 7])
    return listener


def test_answers_are_counted_and_another_status_is_no_failure() -> None:
    listener = heard(STEP, ANSWERED, STEP, (ANSWER, "GET / 410"), (DONE,))
    listener.ended(0)
    assert (listener.report.answered, listener.report.others) == (2, ["GET / 410"])
    assert listener.report.failure is None


def test_after_a_failure_nothing_counts() -> None:
    listener = heard(STEP, (FAILED, "hung in app"), ANSWERED)
    listener.ended(signal.SIGKILL)
    assert listener.report.failure == "GET /: hung in app"
    assert listener.report.answered == 0


@pytest.mark.parametrize(
    ("status", "words"),
    [(signal.SIGABRT, "by SIGABRT"), (3 << 8, "with status 3"), (0, "status 0")],
)
def test_an_end_in_a_request_is_a_failure(status: int, words: str) -> None:
    listener = heard(STEP)
    listener.ended(status)
    assert str(listener.report.failure).startswith("GET /: the process ended ")
    assert str(listener.report.failure).endswith(words)


def test_an_end_after_the_requests_is_none() -> None:
    listener = heard(STEP, ANSWERED, (DONE,))
    listener.ended(signal.SIGABRT)
    assert listener.report.failure is None
