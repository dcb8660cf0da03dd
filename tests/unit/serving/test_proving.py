"""What a server makes of a probe: what it says, and how it goes on."""

import errno
import logging

import pytest

from pasture.errors import ProbeFailed
from pasture.probe.probe import ProbeReport
from pasture.reasons import Hazard, Reason
from pasture.sealing.report import StepReport
from pasture.serving import proving
from pasture.serving.settings import read_environment
from pasture.warmup.requests import Request
from pasture.warmup.warmup import Answer, WarmUpReport

SERVED = WarmUpReport((Answer(Request("GET", "/"), 200, None, 0.1),), application=print)


class Proved:
    """A probe with this report, of one request: lines of the log and reasons of new starts."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        report: ProbeReport | OSError,
        served: WarmUpReport = SERVED,
        given: dict[str, str] | None = None,
    ) -> None:
        self.said: list[tuple[int, str]] = []
        self.why: list[str] = []
        self.step: StepReport | None = None

        def probe(*_: object, **__: object) -> ProbeReport:
            if isinstance(report, OSError):
                raise report
            return report

        monkeypatch.setattr(proving, "probe", probe)
        self.step = proving.prove(
            served,
            read_environment({}, **(given or {})),
            lambda replay: None,
            self.why.append,
            log=lambda level, line: self.said.append((level, line)),
            reaped=lambda pid: None,
        )


def test_no_more_is_said_than_what_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    proved = Proved(monkeypatch, ProbeReport(answered=1))
    said = "probe: 1 request answered, no 5xx, none slow, 0.000 s"
    assert proved.said == [(logging.INFO, said)] and proved.why == []
    assert proved.step == StepReport("probe", 0.0, {"requests": 1, "others": 0})


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_the_warm_up_leaves_on_its_loop_means_plain_unless_it_is_accepted(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    answers = (Answer(Request(method, "/"), 200, None, 0.1),)
    hazards = (Hazard("shop.client", "open it", Reason.LOOP_OWNED),)
    served = WarmUpReport(answers, application=print, hazards=hazards)
    [why] = Proved(monkeypatch, ProbeReport(answered=1), served).why
    assert "the warm-up leaves shop.client" in why and why.endswith("--accept loops")
    accepted = Proved(monkeypatch, ProbeReport(answered=1), served, {"accept": "loops"})
    assert accepted.why == []


def test_requests_that_were_not_sent_and_other_statuses_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = Proved(monkeypatch, ProbeReport())
    assert over.said[0][0] == logging.WARNING
    assert over.said[0][1].startswith("probe: 0 of 1 request answered, no 5xx, none slow, ")
    other = Proved(monkeypatch, ProbeReport(answered=1, others=["GET / 410, not 200"]))
    assert other.said[0][0] == logging.WARNING and other.said[0][1].endswith(": GET / 410, not 200")
    assert over.why == other.why == []


def test_after_a_failure_the_server_starts_again_or_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proved = Proved(monkeypatch, ProbeReport(failure="GET /: answers 500"))
    assert proved.why == ["the probe failed: GET /: answers 500"]
    assert proved.step is not None and proved.step.failed == "GET /: answers 500"
    assert [level for level, _ in proved.said] == [logging.ERROR] * 2  # it came back


@pytest.mark.parametrize("given", [{"probe": "end"}, {"strict": "1"}])
def test_after_a_failure_the_server_ends_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    with pytest.raises(ProbeFailed, match="GET /: answers 500"):
        Proved(monkeypatch, ProbeReport(failure="GET /: answers 500"), given=given)


def test_without_a_request_or_a_process_there_is_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Proved(monkeypatch, OSError(errno.EAGAIN, "no process"))
    assert refused.step is None and "no process" in refused.said[0][1]
    listless = Proved(monkeypatch, ProbeReport(), WarmUpReport())
    assert listless.step is None and listless.said == []
