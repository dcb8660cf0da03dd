"""The import of an application that a plain server makes in each worker, moved into the parent.

If the import holds objects that workers would share or lack (`fork_safety.held`), this program
starts again as without pasture, in the same process, and the workers import. Invariant: a parent
whose import holds hazards that the user has not accepted forks no worker.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from pasture.errors import AppImportFailed, PastureError, SealFailed
from pasture.fork_safety import close, held, streams
from pasture.interpreter import current
from pasture.log_lines import FAILED_IN_PARENT, NO_SEAL, Log, some, write_to_log
from pasture.reasons import Hazard, Reason
from pasture.scoreboard.recorder import recorder
from pasture.sealing.report import SealReport, show_report, write_copy
from pasture.serving import restart
from pasture.serving.restart import Restart
from pasture.serving.settings import ServerSettings
from pasture.warmup.guard import Guard

_END_S = 5.0
"""Limit for ending what the import started: meanwhile workers do not start."""


class EndedBySignal(SystemExit):
    """A handler of the server's ends the import."""


@contextmanager
def moved_import(
    settings: ServerSettings,
    start_plain: Restart,
    *,
    log: Log = write_to_log,
    is_asked_for: bool = False,
    signals: Collection[int] = (),
) -> Iterator[None]:
    """Import the application in the `with` block; does not return if the server starts plain.

    Args:
        start_plain: starts this program again without pasture; returns only if that is impossible.
        is_asked_for: the user has asked the server itself to preload: hazards are then only
            reported, since they exist without pasture, too.
        signals: signals that this server handles after the import, besides INT and TERM.

    Raises:
        AppImportFailed: the import failed, and the program cannot start again.
        SealFailed: the import holds something, and the settings are strict, or the program cannot
            start again.
    """
    if is_asked_for:
        yield
    streams.begin(is_loaded=is_asked_for)
    streams.arm()
    if is_asked_for:
        return
    watch = held.Import(signals)
    try:
        yield
    except EndedBySignal:
        raise
    except (Exception, SystemExit) as error:  # it may succeed in workers
        is_certain = isinstance(error, AppImportFailed) and error.is_certain
        if not (settings.strict or is_certain):
            what = str(error) if isinstance(error, PastureError) else f"{error!r}"
            _start_plain(f"{FAILED_IN_PARENT}{what}", watch, start_plain, log)
        raise
    finally:
        watch.end()
    if _refused(watch, settings):  # connections that each seal closes are closed now
        close.close_connections()
        if found := _refused(watch, settings):
            if not settings.strict:
                _start_plain(why_plain(found), watch, start_plain, log)
            raise SealFailed(
                f"the process is not safe to fork: {some([one.what for one in found], 1)}",
                hint="\n".join([*map(str, found), _accepting(found)]),
            )


def _refused(watch: held.Import, settings: ServerSettings) -> list[Hazard]:
    each = dict.fromkeys(watch.hazards())  # two connections to one database are reported once
    return [one for one in each if one.kind not in settings.accepted and not one.survives]


def why_plain(found: Sequence[Hazard]) -> str:
    """The hazards in words, and how to accept them."""
    return f"{some([str(one) for one in found], 3)}; or {_accepting(found)}"


def _accepting(found: Sequence[Hazard]) -> str:
    return f"accept it with --accept {','.join(dict.fromkeys(one.word for one in found))}"


def _start_plain(why: str, watch: held.Import, start_plain: Restart, log: Log) -> None:
    restart.is_due = True
    with Guard(step_s=_END_S) as guard:
        guard.run("the import's functions for the end of a process", atexit._run_exitfuncs)
        guard.run("the end of what the import has started", watch.undo)
    log(logging.DEBUG, f"starting again as without pasture: {why}")
    start_plain(why)


def announce_plain(why: str, settings: ServerSettings, log: Log = write_to_log) -> None:
    """Report in the log and on the scoreboard that this start is as without pasture."""
    log(logging.WARNING, NO_SEAL % f"plain, because {why}")
    report = SealReport(
        *(current(), settings.policy.name, False, why), round=0, steps=(), why=Reason.PLAIN
    )
    show_report(report)
    write_copy(report, settings.report_file, log)
    recorder.show_seal({**report.as_dict(), "serves": ""})
