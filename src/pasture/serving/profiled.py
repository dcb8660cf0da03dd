"""A profile in a server's parent: building its entries before the seal, and recording for one."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pasture.log_lines import log
from pasture.serving.settings import SETTINGS
from pasture.trust import private_files
from pasture.trust.untrusted_text import printable, to_json
from pasture.warmup.guard import STEP_S, TOTAL_S

if TYPE_CHECKING:
    from pasture.profile.build import Built, Meter
    from pasture.profile.file import Profile
    from pasture.profile.recorder import Recorder
    from pasture.serving.after_response import AfterAnswer
    from pasture.serving.settings import ServerSettings
    from pasture.warmup.warmup import Answer

REPORT = "PASTURE_PROFILE_REPORT"
"""Variable that names a file for what each entry came to, as JSON: for `pasture learn --report`."""

_STATUSES_WITHOUT_LOGIN = (302, 303, 307, 401, 403)
_LOGIN_HEADERS = ("cookie", "authorization")
_NEEDS_LOGIN = (
    "profile: %d of its %d requests were redirected or refused: pages behind a login need the "
    "cookie of a test account (--warm-header 'Cookie: ...')"
)

_NOTHING_YET = (
    "auto: nothing was learned yet: what workers build is recorded in %s, and built before the "
    "fork from the next start on"
)

_LEFT_TO_WORKERS = (
    "auto: what was learned in %s is left to workers: their parent runs nothing of the program, "
    "which may set what a module reads; after a look at the file: --profile instead of --auto"
)

_built: list[Built] = []
_meter: Meter | None = None
_recorder: Recorder | None = None
_taken: Profile | None = None
"""The profile that was built: a program may come here as two engines."""


def prepare(settings: ServerSettings, write: Callable[[int, str], object]) -> None:
    """Build what the settings' profile lists, and have children record, if they say so.

    In the parent, before the seal. `write` takes a level of `logging` and a line of the log.
    """
    if settings.auto is not None and settings.profile is None:
        write(logging.INFO, _NOTHING_YET % printable(str(settings.auto)))
    take_in(
        *(settings.profile, settings.learn, write),
        total_s=settings.warm_total_timeout_s,
    )


def left_to_workers(settings: ServerSettings) -> ServerSettings:
    """The settings of a parent that runs nothing of the program, as a forkserver: without what
    `--auto` has learned, unless the user has named that file.
    """
    if settings.auto is None or os.environ.get(SETTINGS["profile"].variable):
        return settings
    if settings.profile is not None:
        log.info(_LEFT_TO_WORKERS, printable(str(settings.auto)))
    return replace(settings, auto=None, profile=None)


def take_in(
    profile: Profile | None,
    learn: Path | None,
    write: Callable[[int, str], object] = lambda level, line: log.log(level, "%s", line),
    *,
    step_s: float = STEP_S,
    total_s: float = TOTAL_S,
) -> None:
    """The same of a profile and a file."""
    global _taken
    if profile is not None and profile != _taken:
        from pasture.profile.build import build, problems_of, summary_of  # few servers have one

        _taken = profile
        built = build(profile, step_s=step_s, total_s=total_s)
        _built.extend(built)
        write(logging.INFO, f"profile: {summary_of(built)}")
        for problem in (*profile.problems, *problems_of(built)):
            write(logging.WARNING, f"profile: {printable(problem)}")
    if learn is not None:
        global _recorder
        from pasture.profile.recorder import recorder  # now: it is sealed in

        try:
            private_files.require_writable(learn)
        except OSError as error:
            write(logging.WARNING, f"learn: nothing is recorded: {error}")
            return
        _recorder = recorder
        recorder.watch(learn)


def answered(method: str, target: str, headers: Iterable[tuple[str, str]], status: int) -> None:
    """Note a request that a worker has answered, if it records; the target has its query."""
    if _recorder is not None and _recorder.is_on:
        _recorder.answered(method, target, headers, status)


def noting(then: AfterAnswer | None, settings: ServerSettings) -> AfterAnswer | None:
    """A call after the answer of an ASGI application that notes it, if workers record."""
    if settings.learn is None:
        return then

    def note(scope: Any, status: int) -> None:
        if _recorder is not None and _recorder.is_on:
            _recorder.answered_asgi(scope, status)
        if then is not None:
            then(scope, status)

    return note


def noting_wsgi(call: Callable[..., Any]) -> Callable[..., Any]:
    """A WSGI application, or the `__call__` of its class, that notes requests."""

    def noted(*arguments: Any) -> Any:
        *own, environ, start_response = arguments

        def start_and_note(status: str, *rest: Any, **named: Any) -> Any:
            if _recorder is not None and _recorder.is_on:
                _recorder.answered_wsgi(environ, status)
            return start_response(status, *rest, **named)

        return call(*own, environ, start_and_note)

    return noted


def noted(application: Any, settings: ServerSettings, *, is_asgi: bool) -> Any:
    """The application; if workers record, one that notes their requests."""
    note = noting(None, settings)
    if note is None:
        return application
    from pasture.serving.after_response import Watched

    return Watched(application, note) if is_asgi else noting_wsgi(application)


def begin() -> None:
    """Begin to record, if the parent has said so: after a fork of C code, which calls no hook."""
    if _recorder is not None:
        _recorder.begin()


def stop() -> None:
    """Have this process write what it has recorded, and record no more."""
    if _recorder is not None:
        _recorder.stop()


def begin_request() -> None:
    """Before a request of the warm-up, if entries are to be reported."""
    global _meter
    if os.environ.get(REPORT):
        from pasture.profile.build import Meter

        _meter = Meter()


def end_request(request: str, seconds: float, problem: str | None) -> None:
    """After it."""
    if _meter is not None:
        from pasture.profile.build import Built

        _built.append(Built(f"request {request}", seconds, _meter.grown(), problem))


def forget_failed(settings: ServerSettings, answers: Sequence[Answer]) -> None:
    """Have workers take those requests out of the file, for good, that fail without values that
    no profile keeps: they would fail at each start, with a traceback in the application's log.
    """
    if _recorder is not None and settings.profile is not None:
        from pasture.profile.safe import may_lack_values

        failed = {str(answer.request) for answer in answers if answer.failed}
        learned = failed.intersection(settings.profile.of("request"))
        _recorder.failed = frozenset(filter(may_lack_values, learned))


def login_advice(settings: ServerSettings, answers: Sequence[Answer]) -> str | None:
    """What to do if the profile's requests seem to need a login, which no profile holds."""
    if settings.profile is None:
        return None
    if any(name.lower() in _LOGIN_HEADERS for name, _ in settings.warm_up.headers):
        return None
    learned = set(settings.profile.of("request"))
    statuses = [answer.status for answer in answers if str(answer.request) in learned]
    without_login = sum(status in _STATUSES_WITHOUT_LOGIN for status in statuses)
    if not without_login or 2 * without_login < len(statuses):
        return None
    return _NEEDS_LOGIN % (without_login, len(statuses))


def write_report() -> None:
    """Write what each entry came to, if a variable says where. After the seal."""
    path = os.environ.get(REPORT)
    if path:
        try:
            private_files.write(Path(path), to_json([asdict(one) for one in _built]))
        except OSError as error:
            log.warning("profile: the report cannot be written: %s", error)
