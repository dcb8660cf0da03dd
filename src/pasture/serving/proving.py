"""The probe of a server: its log lines, and a new start without what it found broken.

Owns the decision, by the settings, and which requests are sent. The probe itself is
`pasture.probe`, the new start `restart`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from pasture.errors import PastureError, ProbeFailed
from pasture.log_lines import PROBE, RESTARTING, THE_WARM_UP, first_of
from pasture.probe.expectation import Expectation, expectations
from pasture.probe.probe import Play, ProbeReport, probe
from pasture.reasons import Hazard
from pasture.sealing.report import StepReport
from pasture.serving import restart
from pasture.serving.restart import LeftOut
from pasture.serving.settings import ServerSettings
from pasture.warmup.requests import Request
from pasture.warmup.warmup import WarmUpReport

Log = Callable[[int, str], object]
Restart = Callable[[LeftOut], None]
"""Starts the server again; returns only where that is impossible."""

_MAX_LINES = 10
"""Of differences, in the log: where many requests fail, it is often for one reason."""

_MAX_HAZARDS = 2

_NOT_COMPARED = (
    "whether it would be so without a fork is not known: as a request of the warm-up (--warm) the "
    "parent answers it, too, and the answers are compared"
)

_DOUBT = (
    "it may vary by itself, as a request that is listed twice for the warm-up shows, or be due to "
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


@dataclass(frozen=True, slots=True)
class Proving:
    """A probe of the sealed process, by a server's settings.

    Attributes:
        play: starts a worker in it.
        start_again: starts the server again.
        log: takes a level of `logging` and a line.
        reaped: called with the pid of the probe once it is gone.
    """

    settings: ServerSettings
    play: Play
    start_again: Restart
    log: Log
    reaped: Callable[[int], object] = lambda pid: None

    def prove(
        self, warmed_up: Callable[[], WarmUpReport], hazards: Collection[Hazard]
    ) -> StepReport | None:
        """Probe the sealed process; returns only if the server may go on as it is.

        None if there is nothing to send. Raises ProbeFailed if the server shall not start, and
        KeyboardInterrupt if the process was asked to end.

        Args:
            warmed_up: gives the report of the warm-up, or says what would have been served.
            hazards: what the seal has found that does not survive a fork.
        """
        settings = self.settings
        if not (settings.serves_before_the_fork or settings.probe_request or hazards):
            return None
        try:
            served = warmed_up()
        except PastureError as error:
            self.log(logging.WARNING, PROBE % f"left out: {error}")
            return None
        expected = _expected(served, settings, hazards)
        if not expected or served.application is None:
            if served.application is None and not settings.serves_before_the_fork:
                self.log(logging.WARNING, PROBE % served.refused)
            return None
        return self._probe(served, expected, hazards)

    def _probe(
        self,
        served: WarmUpReport,
        expected: tuple[Expectation, ...],
        hazards: Collection[Hazard],
    ) -> StepReport:
        report = probe(
            served,
            expected,
            self.play,
            limit_s=self.settings.probe_limit_s,
            with_lifespan=self.settings.probe_lifespan,
            reaped=self.reaped,
        )
        compared = any(one.has_reference for one in expected)
        _write(report, self.log, () if compared else [str(one.request) for one in expected])
        if report.differences:
            because = "; ".join(map(str, [*hazards][:_MAX_HAZARDS]))
            if because:
                self.log(logging.ERROR, PROBE % f"the seal had found: {because}")
            difference = "; ".join(filter(None, (report.differences[0], because)))
            self._go_on(difference, expected)
        counts = {
            "requests": report.sent,
            "differences": len(report.differences),
            "doubts": len(report.doubts),
            "compared": int(compared),
        }
        problems = (*report.differences, *report.doubts, *filter(None, (report.incomplete,)))
        problems += (_KILLED,) if report.was_killed else ()
        return StepReport("probe", report.seconds, counts, problems=problems)

    def _go_on(self, difference: str, expected: Iterable[Expectation]) -> None:
        """Start in another way, raise ProbeFailed to end, or return to start as it is."""
        settings, log = self.settings, self.log
        choice = settings.probe_failure
        if choice == "report":
            log(logging.ERROR, PROBE % "it failed, but the server starts")
            return
        if choice == "end" or settings.strict:
            raise ProbeFailed(f"a process forked after the seal fails: {difference}", hint=_HINT)
        has_warm_up = settings.serves_before_the_fork and restart.earlier is None
        whole = choice == "unsealed" or not has_warm_up
        log(logging.ERROR, RESTARTING % ("pasture" if whole else THE_WARM_UP))
        known = {
            str(one.request): (200 if one.status is None else one.status, one.seconds or 0.0)
            for one in expected
            if one.has_reference
        }
        self.start_again(LeftOut("pasture" if whole else "warm-up", difference, known))
        log(logging.ERROR, PROBE % "this program cannot be restarted, so it starts as it is")


def _write(report: ProbeReport, log: Log, uncompared: Collection[str] = ()) -> None:
    """Write what a probe has found; `uncompared` are its requests, if no answer was known."""
    if report.was_killed:
        log(logging.WARNING, PROBE % _KILLED)
    for difference in first_of(report.differences, _MAX_LINES, "differ"):
        log(logging.ERROR, PROBE % difference)
    for doubt in report.doubts[:_MAX_LINES]:
        log(logging.WARNING, PROBE % f"{doubt}; {_NOT_COMPARED if uncompared else _DOUBT}")
    if report.incomplete is not None:
        log(logging.WARNING, PROBE % f"{report.incomplete}")
    elif not report.differences and not report.doubts:
        said = f"{report.sent} request{'' if report.sent == 1 else 's'} answered as expected"
        if uncompared:
            said = f"{', '.join(uncompared)} answered in a process that was forked as a worker is"
        log(logging.INFO, PROBE % f"{said}, {report.seconds:.3f} s")


def outcome(step: StepReport) -> str:
    """The outcome of a probe, of its step: one of `figures.PROBES`."""
    if step.counts["differences"]:
        return "failed"
    if step.counts["doubts"]:
        return "doubtful" if step.counts["compared"] else "erred"
    if step.counts["requests"] and not step.counts["compared"]:
        return "served"
    return "incomplete" if step.problems else "passed"


def _expected(
    served: WarmUpReport, settings: ServerSettings, hazards: Collection[Hazard]
) -> tuple[Expectation, ...]:
    """Requests to send, and what is known of their answers."""
    known = _known(served, settings.warm_up.requests)
    asked = settings.probe_request
    if asked is not None and all(one.request != asked for one in known):
        return (*known, Expectation(asked, has_reference=False))
    if not known and hazards:
        return (Expectation(Request("GET", "/"), has_reference=False),)
    return known


def _known(served: WarmUpReport, requests: Iterable[Request]) -> tuple[Expectation, ...]:
    """Requests with their answers in this start's warm-up or in an earlier one's."""
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


def loop_factory(config: Any) -> Any:
    """Of a configuration of uvicorn's: makes its event loop, in each version of uvicorn.

    None is asyncio's own, by the policy that uvicorn sets before 0.36.
    """
    if hasattr(config, "get_loop_factory"):
        return config.get_loop_factory()
    config.setup_event_loop()
    return None
