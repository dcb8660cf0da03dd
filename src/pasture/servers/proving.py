"""The probe of a server: its log lines, and a new start without what it found broken.

Owns the decision, by the settings, and which requests are sent. The probe itself is
`pasture.probe`, the new start `restart`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from pasture.errors import ProbeFailed
from pasture.log_lines import PROBE, STARTING_ANEW, THE_WARM_UP
from pasture.probe.expectation import Expectation, expectations
from pasture.probe.probe import Play, ProbeReport, probe
from pasture.sealing.report import StepReport
from pasture.servers import restart
from pasture.servers.restart import LeftOut
from pasture.servers.settings import ServerSettings
from pasture.warmup.requests import Request
from pasture.warmup.warmup import WarmUpReport

Log = Callable[[int, str], object]
Restart = Callable[[LeftOut], None]
"""Starts the server anew; returns only where that is impossible."""

_MAX_LINES = 10
"""Of differences, in the log: where many requests fail, it is often for one reason."""

_DOUBT = (
    "it may vary by itself, which a request that is listed twice for the warm-up shows, or come of "
    "an ASGI application's start, which --lifespan warm-up shows"
)

_KILLED = (
    "it was killed in what a worker does at its end, which took too long: what the worker's start "
    "has registered elsewhere may be left there"
)

_HINT = (
    "the log names each request and the cause; --no-probe leaves the probe out, and "
    "--probe-failure says how to start if it fails"
)


def prove(
    served: WarmUpReport,
    settings: ServerSettings,
    play: Play,
    begin_anew: Restart,
    log: Log,
    reaped: Callable[[int], object] = lambda pid: None,
) -> StepReport | None:
    """Probe the sealed process; returns only if the server may go on as it is.

    None if there is nothing to send. `reaped` is called with the pid of the probe once it is gone.
    Raises ProbeFailed if the server shall not start, and KeyboardInterrupt if the process was asked
    to end.
    """
    expected = _expected(served, settings.warm_up.requests)
    if not expected or served.application is None:
        return None
    report = probe(
        served,
        expected,
        play,
        limit_s=settings.probe_limit_s,
        with_lifespan=settings.probe_lifespan,
        reaped=reaped,
    )
    _write(report, log)
    if report.differences:
        _go_on(report.differences[0], expected, settings, begin_anew, log)
    counts = {
        "requests": report.sent,
        "differences": len(report.differences),
        "doubts": len(report.doubts),
    }
    problems = (*report.differences, *report.doubts, *filter(None, (report.incomplete,)))
    problems += (_KILLED,) if report.was_killed else ()
    return StepReport("probe", report.seconds, counts, problems=problems)


def _expected(served: WarmUpReport, requests: Iterable[Request]) -> tuple[Expectation, ...]:
    """Requests to send, with their answers in this start's warm-up or in an earlier one's."""
    earlier = restart.earlier
    if earlier is None:
        return expectations(requests, served.answers) if served.answers else ()
    everything = {str(one.request): one.request for one in expectations(requests, ())}
    if not earlier.answers:
        return tuple(map(Expectation, everything.values()))
    return tuple(
        Expectation(everything[name], status, frozenset(), seconds)
        for name, (status, seconds) in earlier.answers.items()
        if name in everything
    )


def _write(report: ProbeReport, log: Log) -> None:
    if report.was_killed:
        log(logging.WARNING, PROBE % _KILLED)
    for difference in report.differences[:_MAX_LINES]:
        log(logging.ERROR, PROBE % difference)
    if len(report.differences) > _MAX_LINES:
        log(logging.ERROR, PROBE % f"{len(report.differences) - _MAX_LINES} more differ")
    for doubt in report.doubts[:_MAX_LINES]:
        log(logging.WARNING, PROBE % f"{doubt}; {_DOUBT}")
    if report.incomplete is not None:
        log(logging.WARNING, PROBE % f"{report.incomplete}")
    elif not report.differences and not report.doubts:
        requests = f"{report.sent} request{'' if report.sent == 1 else 's'}"
        log(logging.INFO, PROBE % f"{requests} answered as they should be, {report.seconds:.3f} s")


def _go_on(
    difference: str,
    expected: Iterable[Expectation],
    settings: ServerSettings,
    begin_anew: Restart,
    log: Log,
) -> None:
    """Start in another way, raise ProbeFailed to end, or return to start as it is."""
    choice = settings.probe_failure
    if choice == "report":
        log(logging.ERROR, PROBE % "it failed, and the server starts as it is")
        return
    if choice == "end" or settings.strict:
        raise ProbeFailed(f"a process forked after the seal fails: {difference}", hint=_HINT)
    whole = choice == "unsealed" or restart.earlier is not None
    log(logging.ERROR, STARTING_ANEW % ("pasture" if whole else THE_WARM_UP))
    known = {
        str(one.request): (200 if one.status is None else one.status, one.seconds or 0.0)
        for one in expected
    }
    begin_anew(LeftOut("pasture" if whole else "warm-up", difference, known))
    log(logging.ERROR, PROBE % "this program cannot be started anew, and starts as it is")


def loop_factory(config: Any) -> Any:
    """Of a configuration of uvicorn's: makes its event loop, in each version of uvicorn.

    None is asyncio's own, by the policy that uvicorn sets before 0.36.
    """
    if hasattr(config, "get_loop_factory"):
        return config.get_loop_factory()
    config.setup_event_loop()
    return None
