"""The probe of a server: its log lines, and the plain start after a failure.

Owns the decision, by the settings. The probe itself is `pasture.probe`, the new start `restart`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pasture.errors import ProbeFailed
from pasture.log_lines import Log, some
from pasture.probe.expectation import LIMIT_S, expectations
from pasture.probe.probe import Play, ProbeReport, probe
from pasture.sealing.report import StepReport
from pasture.serving.moved_import import why_plain
from pasture.serving.restart import Restart
from pasture.serving.settings import ServerSettings
from pasture.warmup.warmup import WarmUpReport

PROBE = "probe: %s"

_MAX_NAMED = 10

_KILLED = (
    "the probe took too long to shut down and was killed; what its start registered elsewhere may "
    "remain"
)


def prove(
    served: WarmUpReport,
    settings: ServerSettings,
    play: Play,
    start_again: Restart,
    *,
    log: Log,
    reaped: Callable[[int], object],
) -> StepReport | None:
    """Probe the sealed process, as `probe` does; returns only if the server goes on sealed.

    Returns None without requests to send. Raises ProbeFailed if the server must not start.
    """
    expected = expectations(served.answers)
    left = [one for one in served.hazards if one.kind not in settings.accepted]
    if not (expected or left):
        return None
    try:
        report = probe(served, expected, play, reaped=reaped) if expected else ProbeReport()
    except OSError as error:
        log(logging.WARNING, PROBE % f"left out: its process cannot be forked: {error}")
        return None
    if report.was_killed:
        log(logging.WARNING, PROBE % _KILLED)
    if report.failure is None and left:
        report.failure = f"after the warm-up {why_plain(left)}"
    if report.failure is None:
        _say(report, len(expected), log)
    else:
        log(logging.ERROR, PROBE % report.failure)
        if settings.probe == "end" or settings.strict:
            raise ProbeFailed(
                f"a process forked after the seal fails: {report.failure}",
                hint="--probe on starts the server as without pasture, --probe off sends nothing",
            )
        start_again(f"the probe failed: {report.failure}")
        log(logging.ERROR, PROBE % "this program cannot be started again, so it starts as it is")
    return StepReport(
        "probe",
        report.seconds,
        {"requests": report.answered, "others": len(report.others)},
        failed=report.failure,
    )


def _say(report: ProbeReport, expected: int, log: Log) -> None:
    of = f" of {expected}" if report.answered < expected else ""
    requests = f"{report.answered}{of} request{'' if expected == 1 else 's'}"
    line = f"{requests} answered, no 5xx, none slow, {report.seconds:.3f} s"
    if of:
        line += f"; none is sent after {LIMIT_S:g} s"
    if report.others:
        line += f"; another status than in the warm-up: {some(report.others, _MAX_NAMED)}"
    log(logging.WARNING if of or report.others else logging.INFO, PROBE % line)


def loop_factory(config: Any) -> Any:
    """The factory of the event loop of a uvicorn `Config`.

    None is asyncio's own, by the policy that uvicorn sets before 0.36.
    """
    if hasattr(config, "get_loop_factory"):
        return config.get_loop_factory()
    config.setup_event_loop()
    return None
