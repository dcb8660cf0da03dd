"""The environment variables that tell a server process what to do.

`pasture run` and `pasture try` reach the server through them alone. They survive the exec of the
server, and the server's own exec when it upgrades itself.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasture.errors import PastureError, UsageError
from pasture.refork.schedule import LEAST_SAVING, Schedule, parse_schedule
from pasture.sealing.policy import Policy, find_policy
from pasture.servers.complaint import complain
from pasture.servers.recycle import DEFAULT_JITTER, MemoryLimit, parse_limit
from pasture.warmup.guard import STEP_S, TOTAL_S
from pasture.warmup.lazy_imports import VARIABLE as LAZY_IMPORTS
from pasture.warmup.requests import Requests, parse_lines, read_requests

POLICY = "PASTURE_POLICY"
WARM = "PASTURE_WARM"
WARM_FILE = "PASTURE_WARM_FILE"
WARM_HEADERS_FILE = "PASTURE_WARM_HEADERS_FILE"
WARM_TIMEOUT = "PASTURE_WARM_TIMEOUT"
WARM_TOTAL_TIMEOUT = "PASTURE_WARM_TOTAL_TIMEOUT"
REPORT_FILE = "PASTURE_REPORT_FILE"
STRICT = "PASTURE_STRICT"
MAX_USS = "PASTURE_MAX_USS"
MAX_USS_JITTER = "PASTURE_MAX_USS_JITTER"
REFORK = "PASTURE_REFORK"
REFORK_LEAST_SAVING = "PASTURE_REFORK_LEAST_SAVING"
REFORK_WARM = "PASTURE_REFORK_WARM"
LIFESPAN = "PASTURE_LIFESPAN"

LIFESPANS = ("each", "warm-up", "once")
"""Who starts an ASGI application: each worker for itself; the same, and the parent for the warm-up,
which it ends after that; or the parent once, for all."""
PRELOAD = "PASTURE_PRELOAD"
ONCE = "PASTURE_ONCE"
PROBE = "PASTURE_PROBE"
PROBE_LIFESPAN = "PASTURE_PROBE_LIFESPAN"
PROBE_TIMEOUT = "PASTURE_PROBE_TIMEOUT"
PROBE_FAILURE = "PASTURE_PROBE_FAILURE"

PROBE_FAILURES = ("no-warm-up", "unsealed", "end", "report")
"""How a server starts whose probe failed: without the warm-up, and if that fails too without
pasture; without pasture at once; not at all; or as it is, with the errors in the log."""

PROBE_S = 30.0
"""Limit of a probe, all in all."""

_MOST_S = 1e6  # the kernel's timers take more, but nobody waits for so long


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server process is to do.

    Attributes:
        policy: the policy whose steps it takes.
        warm_up: served before the fork, if the policy warms up.
        warm_timeout_s, warm_total_timeout_s: time limits of one request of it and of the whole;
            0 for none.
        report_file: where the seal's report goes as JSON; None for nowhere.
        strict: end with an error rather than fork unsealed, or with what a fork breaks.
        memory_limit: limit of a worker's private memory; None for none.
        refork: when workers become parents; None for never.
        lifespan_once: the parent starts an ASGI application for all workers.
        lifespan_warms: the parent starts and ends it around the warm-up.
        refork_warms: a new generation 0 is warmed up with what the old server has answered.
        preload: modules that are imported before the first seal.
        once: never seal again, however much was loaded since; None is as the engine needs it.
        probe: serve the warm-up's requests once more in a process of their own, before workers do.
        probe_lifespan: start and end an ASGI application in it.
        probe_limit_s: time limit of all of it.
        probe_failure: one of `PROBE_FAILURES`.
    """

    policy: Policy
    warm_up: Requests
    report_file: Path | None
    strict: bool = False
    memory_limit: MemoryLimit | None = None
    refork: Schedule | None = None
    warm_timeout_s: float = STEP_S
    warm_total_timeout_s: float = TOTAL_S
    lifespan_once: bool = False
    lifespan_warms: bool = False
    refork_warms: bool = True
    preload: tuple[str, ...] = ()
    once: bool | None = None
    probe: bool = True
    probe_lifespan: bool = True
    probe_limit_s: float = PROBE_S
    probe_failure: str = PROBE_FAILURES[0]


def read_environment(
    environ: Mapping[str, str] = os.environ,
    *,
    policy: str | Policy | None = None,
    warm: Iterable[str] = (),
    max_uss: str | None = None,
    refork: str | None = None,
    warm_timeout: float | str | None = None,
    warm_total_timeout: float | str | None = None,
    preload: str = "",
) -> ServerSettings:
    """Settings from the variables; where one is unset, from the arguments.

    The variables win, so that a trial can try other policies on an application whose own
    configuration names one. A variable that is empty is unset; an empty argument is a mistake.

    Args:
        warm: lines of requests and headers.
        max_uss: limit of a worker's private memory, as in `200M`.
        refork: requests by generation, as in `50,500,2000`. Without a policy it means the
            policy of that name.
        warm_timeout, warm_total_timeout: seconds for a request of the warm-up and for all of
            it; 0 is no limit.
        preload: names of modules with commas between them.

    Raises:
        UnknownPolicy: no policy has that name.
        UsageError: a file cannot be read, or a line of it or a limit is malformed.
    """
    schedule = environ.get(REFORK) or refork
    name = environ.get(POLICY) or policy
    if name is None and schedule is not None:
        name = "refork"
    chosen = find_policy(name)
    if schedule is None and chosen.refork:
        schedule = ",".join(map(str, chosen.refork))
    limit = environ.get(MAX_USS) or max_uss
    jitter = environ.get(MAX_USS_JITTER) or DEFAULT_JITTER
    warm_up = parse_lines(environ.get(WARM, "").splitlines())
    for name in (WARM_FILE, WARM_HEADERS_FILE):
        if environ.get(name):
            warm_up += read_requests(Path(environ[name]))
    report_file = environ.get(REPORT_FILE)
    lifespan = _lifespan(environ.get(LIFESPAN) or LIFESPANS[0])
    return ServerSettings(
        policy=chosen,
        warm_up=warm_up or parse_lines(warm),
        report_file=Path(report_file) if report_file else None,
        strict=environ.get(STRICT, "") not in ("", "0"),
        memory_limit=None if limit is None else parse_limit(limit, jitter),
        refork=_schedule(schedule, environ),
        warm_timeout_s=parse_seconds(_first(environ.get(WARM_TIMEOUT), warm_timeout, STEP_S)),
        warm_total_timeout_s=parse_seconds(
            _first(environ.get(WARM_TOTAL_TIMEOUT), warm_total_timeout, TOTAL_S)
        ),
        refork_warms=environ.get(REFORK_WARM, "") != "0",
        lifespan_once=lifespan == "once",
        lifespan_warms=lifespan == "warm-up",
        preload=parse_modules(environ.get(PRELOAD) or preload),
        once=_choice(ONCE, environ.get(ONCE, "")),
        probe=_choice(PROBE, environ.get(PROBE, "")) is not False,
        probe_lifespan=_choice(PROBE_LIFESPAN, environ.get(PROBE_LIFESPAN, "")) is not False,
        probe_limit_s=parse_seconds(environ.get(PROBE_TIMEOUT) or PROBE_S) or PROBE_S,
        probe_failure=_probe_failure(environ.get(PROBE_FAILURE) or PROBE_FAILURES[0]),
    )


def settings_or_end(**arguments: Any) -> ServerSettings:
    """Settings as `read_environment` gives them. Ends the process if they make no sense.

    For code that a server's configuration or a hook runs: an error would be a traceback there.
    """
    try:
        return read_environment(**arguments)
    except PastureError as error:
        sys.exit(complain(error))


def parse_seconds(value: str | float) -> float:
    """A time limit as a user writes it; 0 is none.

    Raises:
        UsageError: it is no number, or below 0.
    """
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _MOST_S:
        raise UsageError(f"{value!r} is no time limit", hint="give seconds, as in 30; 0 for none")
    return seconds


def parse_modules(text: str) -> tuple[str, ...]:
    """Names of modules as a user writes them, with commas between them.

    Raises:
        UsageError: one of them cannot be the name of a module.
    """
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(
                f"{name!r} is no name of a module", hint="as in my_tasks,my_models.tables"
            )
    return names


def _choice(variable: str, text: str) -> bool | None:
    if text in ("", "0", "1"):
        return None if not text else text == "1"
    raise UsageError(f"{variable} is {text!r}", hint="1 or 0")


def _first(variable: str | None, argument: str | float | None, default: float) -> str | float:
    return variable or (default if argument is None else argument)


def _lifespan(word: str) -> str:
    if word not in LIFESPANS:
        raise UsageError(f"{LIFESPAN} is {word!r}", hint=f"known are {', '.join(LIFESPANS)}")
    return word


def _probe_failure(word: str) -> str:
    if word not in PROBE_FAILURES:
        known = ", ".join(PROBE_FAILURES)
        raise UsageError(f"{PROBE_FAILURE} is {word!r}", hint=f"known are {known}")
    return word


def _schedule(text: str | None, environ: Mapping[str, str]) -> Schedule | None:
    least_saving = environ.get(REFORK_LEAST_SAVING) or LEAST_SAVING
    return None if text is None else parse_schedule(text, least_saving)


def to_environment(
    *,
    policy: str | None,
    warm: Iterable[str],
    warm_file: Path | None,
    strict: bool = False,
    max_uss: str | None = None,
    max_uss_jitter: float | None = None,
    refork: str | None = None,
    warm_timeout: float | None = None,
    warm_total_timeout: float | None = None,
    lazy_imports: str | None = None,
    lifespan: str | None = None,
    preload: str = "",
    once: bool | None = None,
    probe: bool = True,
    probe_lifespan: bool = True,
    probe_timeout: float | None = None,
    probe_failure: str | None = None,
) -> dict[str, str]:
    """The variables that say the same as these options; unset ones are left out.

    Args:
        warm: lines of requests and headers.
    """
    lines = "\n".join(warm)
    variables = {
        POLICY: policy,
        WARM: lines or None,
        WARM_FILE: str(warm_file.absolute()) if warm_file else None,
        STRICT: "1" if strict else None,
        MAX_USS: max_uss,
        MAX_USS_JITTER: None if max_uss_jitter is None else str(max_uss_jitter),
        REFORK: refork,
        WARM_TIMEOUT: None if warm_timeout is None else str(warm_timeout),
        WARM_TOTAL_TIMEOUT: None if warm_total_timeout is None else str(warm_total_timeout),
        LAZY_IMPORTS: lazy_imports,
        LIFESPAN: lifespan,
        PRELOAD: preload or None,
        ONCE: None if once is None else str(int(once)),
        PROBE: None if probe else "0",
        PROBE_LIFESPAN: None if probe_lifespan else "0",
        PROBE_TIMEOUT: None if probe_timeout is None else str(probe_timeout),
        PROBE_FAILURE: probe_failure,
    }
    return {name: value for name, value in variables.items() if value is not None}
