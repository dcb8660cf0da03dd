"""A start as without pasture: said in the log, and shown where tools look for a seal."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pasture import off
from pasture.interpreter import current
from pasture.log_lines import NO_SEAL
from pasture.reasons import Reason
from pasture.scoreboard.recorder import recorder
from pasture.sealing.report import SealReport, show_report
from pasture.serving import restart
from pasture.serving.sealer import show_log, write_to_log
from pasture.serving.settings import ServerSettings

_is_said = False


def is_off(log: Callable[[int, str], object] | None = None) -> bool:
    """Whether `PASTURE=off` is set; the log says so once, on stderr where there is no `log`.

    Asked before settings are read: one that makes no sense is no error then. Nothing is kept.
    """
    global _is_said
    why = off.why()
    if why is not None and not _is_said:
        _is_said = True
        if log is None:
            show_log()
            log = write_to_log
        log(logging.INFO, NO_SEAL % why)
    return why is not None


def announce(settings: ServerSettings, log: Callable[[int, str], object]) -> bool:
    """Whether this start is one; says why. `log` takes a level of `logging` and a line."""
    why = restart.why_plain
    if why is None:
        return False
    log(logging.WARNING, NO_SEAL % f"plain, because {why}")
    report = SealReport(
        *(current(), settings.policy.name, False, why),
        round=0,
        steps=(),
        why=Reason.PLAIN,
    )
    show_report(report)
    recorder.show_seal({**report.as_dict(), "serves": ""})
    return True
