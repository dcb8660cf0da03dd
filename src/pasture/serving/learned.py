"""`--auto` in a server's parent: builds learned entries before the seal, and has children record.

Owns the order: read, try new entries, build, choose the code to gather, record. Invariant: a parent
in which a tried entry fails nevertheless does not fork workers; where it cannot be replaced by a
new start, all entries are tried at each start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from pasture.errors import UsageError
from pasture.log_lines import Log, first_of, log, write_to_log
from pasture.serving import restart
from pasture.trust.untrusted_text import printable

if TYPE_CHECKING:
    from pasture.learning.file import Entries
    from pasture.learning.recorder import Recorder
    from pasture.sealing.policy import Policy
    from pasture.serving.settings import ServerSettings

_MAX_LINES = 10
_NOTHING_YET = (
    "auto: nothing was learned yet: what workers import and run is recorded in %s, and built "
    "before the fork from the next start on"
)
_NOTHING_LEARNED = (
    "auto: nothing was learned: workers of earlier starts have imported and run nothing that could "
    "be built; it is recorded in %s"
)

_NO_PROGRAM = "this parent does not run the program"

_recorder: Recorder | None = None
_names: list[str] | None = None
"""Names of the code that the next seal gathers; None gathers the code that ran."""


def prepare(
    path: Path,
    policy: Policy,
    write: Log = write_to_log,
    start_again: restart.Restart | None = None,
    as_worker: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Build what a file lists, and have children record in it. In the parent, before the seal.

    Trials and builds run in a context of `as_worker`.
    """
    from pasture.learning import file, recorder  # imported now: few servers have a file

    global _recorder, _names
    try:
        entries = file.read(path)
    except UsageError as error:
        write(logging.WARNING, f"auto: nothing is built or recorded: {error}")
        return
    if entries:
        entries = _built(path, entries, write, start_again, as_worker)
    else:
        words = _NOTHING_LEARNED if path.exists() else _NOTHING_YET
        write(logging.INFO, words % printable(str(path)))
    _names = file.values_of(entries, "code")
    try:
        size = file.write(path, entries)
    except OSError as error:
        write(logging.WARNING, f"auto: nothing is recorded: {printable(str(error))}")
        return
    _recorder = recorder.recorder
    _recorder.watch(path, size, entries, shows_code="trace-code" in policy.heap)


def _built(
    path: Path,
    entries: Entries,
    write: Log,
    start_again: restart.Restart | None,
    as_worker: Callable[[], AbstractContextManager[object]],
) -> Entries:
    """Try new entries and build good ones; returns all entries with their outcomes."""
    from pasture.learning import build, file, trial

    can_start_again = start_again is not None and restart.is_possible()
    began_s = perf_counter()
    with as_worker():
        new = file.to_build(entries, file.NEW, *(() if can_start_again else (file.OK,)))
        tried = trial.tried(new)
    kept = {**entries, **tried}.items()
    entries = {line: outcome for line, outcome in kept if outcome != trial.THERE}
    refused = [f"{line} {why}" for line, why in tried.items() if why not in (file.OK, trial.THERE)]
    for each in first_of(refused, _MAX_LINES, "entries are left to workers"):
        write(logging.WARNING, f"auto: left to workers: {printable(each)}")
    good = [one for one in file.to_build(entries, file.OK) if can_start_again or one in tried]
    with as_worker():
        built = list(build.build(good))
    for line, problem in built:
        if problem and problem != build.GONE:
            why = f"{printable(line)} {problem}"
            write(logging.ERROR, f"auto: {why}, and did not when it was tried")
            if can_start_again and start_again is not None:
                _start_without(line, problem, path, entries, start_again)
    write(logging.INFO, f"auto: built {len(good)} entries in {perf_counter() - began_s:.1f} s")
    return entries


def _start_without(
    line: str, problem: str, path: Path, entries: Entries, start_again: restart.Restart
) -> None:
    """Replace this process by a start without an entry, which tries the rest again.

    If that start fails here, too, the next one is plain.
    """
    from pasture.learning import file

    again = {one: file.NEW if why == file.OK else why for one, why in entries.items()}
    is_plain = restart.is_another
    try:
        file.write(path, {**again, line: problem})
    except OSError:
        is_plain = True
    start_again(f"{line} {problem} in the parent, and did not when it was tried", plain=is_plain)


def choose_code(policy: Policy, *, ran: bool) -> None:
    """Have the seal gather the learned code; with `ran` also code that has run since."""
    if _names is not None and "gather-code" in policy.heap:
        from pasture.learning import code

        code.choose(_names, ran=ran)


def without_auto(settings: ServerSettings, why: str = _NO_PROGRAM) -> ServerSettings:
    """The settings without `auto`, for a forkserver: it does not run the program."""
    if settings.auto is not None:
        log.warning("auto: nothing is learned: %s", why)
    return replace(settings, auto=None)


def begin() -> None:
    """Begin to record, if enabled, after a fork by C code, which calls no hook."""
    if _recorder is not None:
        _recorder.begin()


def stop() -> None:
    """Have this process write its record and stop recording."""
    if _recorder is not None:
        _recorder.stop()
