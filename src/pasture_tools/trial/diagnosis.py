"""Why a server did not come up, read from what it printed. Pure functions from text to error.

Owns the phrases of Python tracebacks; `servers` has those of servers. Each error carries the end of
the log, so that a wrong guess still shows the user what happened.
"""

from __future__ import annotations

import re

from pasture.errors import (
    ERROR,
    HINT,
    AppDidNotAnswer,
    AppImportFailed,
    PastureError,
    PortTaken,
    ServerFailed,
)
from pasture.log_lines import FAILED_IN_PARENT, NO_SEAL, find
from pasture_tools.launch.session import last_exception, tail
from pasture_tools.trial.responses import UrlAnswers
from pasture_tools.trial.servers.facts import Phrases

_PORT_TAKEN = re.compile(
    r"^.*(?:address already in use|connection in use).*$", re.IGNORECASE | re.MULTILINE
)
_FACTORY = re.compile(
    r"^TypeError: (\w+)\(\) takes (?:from \d+ to )?[01] positional arguments? but [23] were given",
    re.MULTILINE,
)
"""The error of a factory that a server called as an application, by WSGI or ASGI."""


def ended_early(app: str, log: str, exit_code: int, port: int, phrases: Phrases) -> PastureError:
    """The error for a server that ended before it answered."""
    own = _own_error(log, exit_code)
    # The server may report more about a missing application than pasture does.
    says_less = isinstance(own, AppImportFailed) and phrases.not_found.search(log) is not None
    if own is not None and not says_less:
        return own
    taken = _PORT_TAKEN.search(log)
    if taken and re.search(rf"\b{port}\b", taken[0]) is None:
        return PortTaken(
            f"the server's arguments name an address that is in use: {taken[0].strip()}",
            hint="remove it from the server's arguments: each server gets a free port",
        )
    if taken:
        return PortTaken(
            f"port {port} was taken by another process while the server started",
            hint="try again: each server gets a free port",
        )
    not_loaded = _not_loaded(app, log, phrases)
    if not_loaded is not None:
        return not_loaded
    if exit_code == 0:
        return went_into_background()
    return ServerFailed(
        f"the server ended with exit code {exit_code} before it answered",
        hint="its log ends with\n" + tail(log),
    )


def workers_died(app: str, log: str, phrases: Phrases) -> PastureError:
    """The error for a server that runs on while its workers end before one answers."""
    own = f"{phrases.worker_died_hint}; " if phrases.worker_died_hint else ""
    return _not_loaded(app, log, phrases) or ServerFailed(
        "the server's workers exit before one of them answers",
        hint=f"{own}its log ends with\n" + tail(log),
    )


def went_into_background() -> ServerFailed:
    """The error for a server whose first process ends while its children serve."""
    return ServerFailed(
        "the server went into the background", hint="turn off `daemon` in its configuration"
    )


def ended_under_load(policy: str, log: str, exit_code: int) -> ServerFailed:
    """The error for a server that ended while the load ran."""
    return ServerFailed(
        f"the server under {policy} ended with exit code {exit_code} while it was under load",
        hint="its log ends with\n" + tail(log),
    )


def did_not_answer(app: str, log: str, timeout_s: float) -> AppDidNotAnswer:
    """The error for a server that runs and does not answer."""
    return AppDidNotAnswer(
        f"{app} did not answer within {timeout_s:g} s",
        hint="raise --server-timeout if it needs longer; the server's log ends with\n" + tail(log),
    )


def always_failing(url: str, found: UrlAnswers, log: str, phrases: Phrases) -> AppDidNotAnswer:
    """The error for a URL that gives nothing but 5xx, or no answer at all."""
    given = " and ".join(str(status) for status in sorted(found.statuses) if status)
    what = f"always answers {given}" if given else f"answers no request: {found.error}"
    if found.timeouts and not given:
        return AppDidNotAnswer(
            f"{url} answers no request in time: {found.timeouts} timed out",
            hint="raise --server-timeout if a request may take longer; the server's log ends with\n"
            + tail(log),
        )
    if factory := _FACTORY.search(log):
        return AppDidNotAnswer(
            f"{url} {what}, because {factory[1]} is not an application",
            hint=f"if {factory[1]} returns the application, name its result: MODULE:{factory[1]}()",
        )
    if phrases.called_wrongly.search(log):
        return AppDidNotAnswer(
            f"{url} {what}, because {phrases.wrong_kind}", hint=phrases.wrong_kind_hint
        )
    return AppDidNotAnswer(
        f"{url} {what}",
        hint="error pages are not compared; the server's log ends with\n" + tail(log),
    )


def _own_error(log: str, exit_code: int) -> PastureError | None:
    """An error that `pasture run` wrote as its last lines (pasture.trust.untrusted_text)."""
    lines = log.rstrip().splitlines()
    begin = next((i for i in reversed(range(len(lines))) if lines[i].startswith(ERROR)), None)
    if begin is None:
        return None
    message, hint = lines[begin].removeprefix(ERROR), lines[begin + 1 :]
    is_hint = all(line[:1] in ("", " ", "\t") for line in hint[1:])
    if hint and not (hint[0].startswith(HINT) and is_hint):
        return None
    for kind in PastureError.__subclasses__():
        if kind.exit_code == exit_code:
            return kind(message, hint="\n".join(hint).removeprefix(HINT))
    return None


def _not_loaded(app: str, log: str, phrases: Phrases) -> PastureError | None:
    """The error for an application that was not loaded or started; None without such a phrase."""
    if phrases.start_failed and phrases.start_failed in log:
        why = last_exception(log) or phrases.start_failed
        return ServerFailed(
            f"{app} cannot be started: {why}", hint="the server's log ends with\n" + tail(log)
        )
    if (said := find(NO_SEAL, log)) and FAILED_IN_PARENT in said[0]:
        return AppImportFailed(
            said[0].partition(FAILED_IN_PARENT)[2], hint="the server's log ends with\n" + tail(log)
        )
    named, reason = phrases.not_found.search(log), last_exception(log)
    if named and (reason is None or "AppImportError" in reason):
        reason = named[1]
    if reason is None:
        return None
    return AppImportFailed(
        f"{app} cannot be imported: {reason}",
        hint="check the name and this folder; the server's log ends with\n" + tail(log),
    )
