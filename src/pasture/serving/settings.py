"""The settings of a server process, a row each.

The row is all: what is read and written here, the options of `pasture run` and the arguments of
`configure()` follow from it.

`pasture run` and `pasture try` reach the server through the variables alone. They survive the exec
of the server, and the server's own exec when it upgrades itself.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pasture.errors import PastureError, UsageError
from pasture.refork.schedule import MIN_SAVING, Schedule, parse_schedule
from pasture.sealing.policy import DEFAULT_POLICY, POLICIES, Policy, find_policy
from pasture.serving.recycle import parse_limit
from pasture.serving.setting import Raw, Setting, setting
from pasture.trust.untrusted_text import complain
from pasture.warmup.guard import STEP_S, TOTAL_S
from pasture.warmup.lazy_imports import DEFAULT_PATTERNS, parse_patterns
from pasture.warmup.lazy_imports import VARIABLE as LAZY_IMPORTS
from pasture.warmup.requests import (
    Request,
    Requests,
    parse_header,
    parse_lines,
    parse_request,
    parse_safe_request,
    read_requests,
)

if TYPE_CHECKING:
    from pasture.profile.file import Profile

PROBE_S = 30.0
"""Limit of a probe, all in all."""

_MAX_S = 1e6  # 11 days; more is a typing error


def parse_seconds(value: str | float) -> float:
    """A time limit as a user writes it; 0 is none. Raises a UsageError at nonsense."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _MAX_S:
        raise UsageError(f"{value!r} is no time limit", hint="give seconds, as in 30; 0 for none")
    return seconds


def parse_modules(text: str) -> tuple[str, ...]:
    """Names of modules, with commas between them. Raises a UsageError if one cannot be a name."""
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(
                f"{name!r} is not a module name", hint="as in my_tasks,my_models.tables"
            )
    return names


def _read_profile(path: str) -> Profile:
    from pasture.profile import file  # few servers have one

    return file.read(Path(path))


def _read_learned(path: str | Path) -> Profile | None:
    """What was learned so far: nothing that is wrong with it keeps a server from its start."""
    from pasture.profile import file

    try:
        return file.read(Path(path)) if Path(path).exists() else None
    except PastureError as error:
        return file.Profile(problems=(f"{error}; what was learned is not used",))


def _parse_requests(
    lines: str | Iterable[str], file: Raw, headers: Iterable[str], headers_file: Raw
) -> Requests:
    found = parse_lines(lines.splitlines() if isinstance(lines, str) else lines)
    found += parse_lines(headers)
    for path in (file, headers_file):
        if path is not None:
            found += read_requests(Path(path))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of a server process. `pasture run --help` lists the rows in this order."""

    policy: Policy = setting(
        "PASTURE_POLICY",
        "--policy",
        metavar="NAME",
        help=f"What is done to the heap: {', '.join(POLICIES)}.  [default: {DEFAULT_POLICY}]",
        default=DEFAULT_POLICY,
        parse=find_policy,
    )
    warm_up: Requests = setting(
        "PASTURE_WARM",
        "--warm",
        metavar="[METHOD] URL",
        help="Request to serve before the fork, a path or a full URL; repeat for more.",
        repeats=True,
        default="",
        parse=_parse_requests,
        check=parse_request,
        parts=(
            Setting(
                variable="PASTURE_WARM_FILE",
                option="--warm-file",
                takes=Path,
                help="File of requests: one [METHOD] URL a line, or 'Name: value' for a header.",
            ),
            Setting(
                option="--warm-header",
                metavar="'NAME: VALUE'",
                help="Header of each of these requests; repeat for more.",
                repeats=True,
                default=(),
                check=parse_header,
            ),
            Setting(
                variable="PASTURE_WARM_HEADERS_FILE",
                takes=Path,
                help="File of headers for these requests, 'Name: value' a line.",
            ),
        ),
    )
    warm_timeout_s: float = setting(
        "PASTURE_WARM_TIMEOUT",
        "--warm-timeout",
        metavar="SECONDS",
        help=f"Limit of each of these requests; 0 for none.  [default: {STEP_S:g}]",
        takes=float,
        default=STEP_S,
        parse=parse_seconds,
    )
    warm_total_timeout_s: float = setting(
        "PASTURE_WARM_TOTAL_TIMEOUT",
        "--warm-total-timeout",
        metavar="SECONDS",
        help=f"Limit of all of them together; the rest is skipped.  [default: {TOTAL_S:g}]",
        takes=float,
        default=TOTAL_S,
        parse=parse_seconds,
    )
    lazy_imports: str | None = setting(  # read by the seal itself
        LAZY_IMPORTS,
        "--lazy-imports",
        metavar="PATTERNS",
        help="Pending lazy imports (CPython 3.15) to make before the fork, as in "
        f"'stdlib,mysite.*,!mysite.reports'; '' for none.  [default: {DEFAULT_PATTERNS}]",
        check=parse_patterns,
    )
    preload: tuple[str, ...] = setting(
        "PASTURE_PRELOAD",
        "--preload",
        metavar="MODULES",
        help="Modules to import before the fork, as in my_tasks,my_models.",
        default="",
        parse=parse_modules,
    )
    profile: Profile | None = setting(
        "PASTURE_PROFILE",
        "--profile",
        takes=Path,
        help="Build before the fork what this file of `pasture learn` lists.",
        parse=_read_profile,
    )
    learn: Path | None = setting(
        "PASTURE_LEARN",
        "--learn",
        takes=Path,
        help="Record in this file what workers build after the fork, for --profile.",
    )
    auto: Path | None = setting(
        "PASTURE_AUTO",
        takes=Path,
        help="File to record in, and to build from at the next start: `pasture run --auto`.",
    )
    once: bool | None = setting(
        "PASTURE_ONCE",
        "--once/--again",
        help="Seal only before the first fork, or again after much more was loaded.  "
        "[default: once for parents that work themselves, as rq's]",
        takes=bool,
    )
    strict: bool = setting(
        "PASTURE_STRICT",
        "--strict",
        help="Exit instead of forking unsealed, without a module of --preload, or with threads or "
        "connections that a fork breaks.",
        takes=bool,
        default=False,
    )
    memory_limit: int | None = setting(
        "PASTURE_MAX_USS",
        "--max-uss",
        metavar="SIZE",
        help="Replace a worker whose private memory exceeds this, as in 200M.",
        parse=parse_limit,
        engines=lambda engine: engine.replaces_workers,
        refusal=("{} has no way to replace a worker", "leave --max-uss out"),
    )
    refork: Schedule | None = setting(
        "PASTURE_REFORK",
        "--refork",
        metavar="REQUESTS",
        help="gunicorn: after N requests a worker becomes the next parent. One number for "
        "each generation: 50,500,2000.",
        parse=parse_schedule,
        parts=(
            Setting(
                variable="PASTURE_REFORK_LEAST_SAVING",
                help="Stop reforking after a refork that saves less than this fraction of the "
                f"server's memory.  [default: {MIN_SAVING}]",
                default=MIN_SAVING,
            ),
        ),
        engines=lambda engine: engine.reforks,
        refusal=("{} cannot refork", "only gunicorn can"),
    )
    refork_warms: bool = setting(
        "PASTURE_REFORK_WARM",
        help="Warm up a new generation 0 with what the old server has answered.  [default: 1]",
        takes=bool,
        default=True,
        engines=lambda engine: engine.reforks,
    )
    lifespan: str = setting(
        "PASTURE_LIFESPAN",
        "--lifespan",
        help="Where the ASGI lifespan runs. each: in every worker. warm-up: also in the parent "
        "during the warm-up. once: only in the parent; workers share its state.  [default: each]",
        takes=("each", "warm-up", "once"),
        default="each",
    )
    probe: bool = setting(
        "PASTURE_PROBE",
        "--probe/--no-probe",
        help="Before workers start, fork a process like them, send it the warm-up's GET requests, "
        "and compare the answers.  [default: probe]",
        takes=bool,
        default=True,
    )
    probe_request: Request | None = setting(
        "PASTURE_PROBE_REQUEST",
        "--probe-request",
        metavar="[METHOD] URL",
        help="Request that the probe always sends. Without it and without a warm-up it sends GET / "
        "if the seal found something that does not survive a fork.",
        parse=parse_safe_request,
        check=parse_safe_request,
    )
    probe_lifespan: bool = setting(
        "PASTURE_PROBE_LIFESPAN",
        "--probe-lifespan/--no-probe-lifespan",
        help="Run the ASGI lifespan in the probe.  [default: probe-lifespan]",
        takes=bool,
        default=True,
    )
    probe_limit_s: float = setting(
        "PASTURE_PROBE_TIMEOUT",
        "--probe-timeout",
        metavar="SECONDS",
        help=f"Limit of the whole probe.  [default: {PROBE_S:g}]",
        takes=float,
        default=PROBE_S,
        parse=lambda raw: parse_seconds(str(raw)) or PROBE_S,
    )
    probe_failure: str = setting(
        "PASTURE_PROBE_FAILURE",
        "--probe-failure",
        help="If the probe fails: restart without warm-up (then without pasture), restart without "
        "pasture, exit, or only report.  [default: no-warm-up]",
        takes=("no-warm-up", "unsealed", "end", "report"),
        default="no-warm-up",
    )
    after: str = setting(
        "PASTURE_AFTER",
        "--after",
        metavar="MODULE[:NAME]",
        help="python: do not seal before this module is imported, or this name in it is set.",
        default="",
        engines=lambda engine: engine.name == "python",
        refusal=("--after is of no use to {}", "it preloads by itself"),
    )
    fork_spawned: bool = setting(
        "PASTURE_FORK_SPAWNED",
        "--fork-spawned",
        help="python: fork the processes that multiprocessing would spawn, from one sealed process "
        "that was spawned as they would be.",
        takes=bool,
        default=False,
        engines=lambda engine: engine.name == "python",
        refusal=("--fork-spawned is of no use to {}", "it forks its workers by itself"),
    )
    report_file: Path | None = setting(
        "PASTURE_REPORT_FILE", takes=Path, help="Write a copy of the seal's report here, as JSON."
    )

    @property
    def serves_before_the_fork(self) -> bool:
        """Whether there are requests, and a policy that serves them."""
        return self.policy.warms_up and bool(self.warm_up)


_ROWS: Mapping[str, Setting] = MappingProxyType(
    {field.name: field.metadata["row"] for field in dataclasses.fields(ServerSettings)}
)

SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {each.name: each for row in _ROWS.values() for each in (row, *row.parts)}
)
"""All rows by their names, parts after what they belong to."""


def read_environment(environ: Mapping[str, str] = os.environ, **given: Raw) -> ServerSettings:
    """Settings from the variables; where one is unset, from the arguments.

    The variables win, so that a trial can try other policies on an application whose own
    configuration names one. A variable that is empty is unset; an empty argument is a mistake.

    Args:
        given: raw values by the names of `SETTINGS`; None is unset.

    Raises:
        UnknownPolicy: no policy has that name.
        UsageError: a file cannot be read, or a value makes no sense.
    """
    given = {name: raw for name, raw in given.items() if raw is not None}
    if environ.get(SETTINGS["refork"].variable) or "refork" in given:
        given.setdefault("policy", "refork")
    policy = _ROWS["policy"].read(environ, given)
    if policy.refork:
        given.setdefault("refork", ",".join(map(str, policy.refork)))
    warm_up = _ROWS["warm_up"].read(environ, {})
    if not warm_up:  # a trial's requests are not mixed with those of a configuration
        warm_up += _ROWS["warm_up"].read({}, given)
    profile = _ROWS["profile"].read(environ, given)
    auto = _ROWS["auto"].read(environ, given)
    if auto is not None:
        given.setdefault("learn", auto)
        profile = _read_learned(auto) if profile is None else profile
    if profile is not None:
        warm_up += Requests(tuple(map(parse_request, profile.of("request"))))
    values = {"policy": policy, "warm_up": warm_up, "profile": profile}
    left = {name: row.read(environ, given) for name, row in _ROWS.items() if name not in values}
    return ServerSettings(**values, **left)


def settings_or_end(**given: Raw) -> ServerSettings:
    """Settings as `read_environment` gives them. Ends the process if they make no sense.

    For code that a hook runs: an error would be a traceback there.
    """
    try:
        return read_environment(**given)
    except PastureError as error:
        sys.exit(complain(error))


def to_environment(**given: Raw) -> dict[str, str]:
    """The variables that say the same as raw values by names of `SETTINGS`, but for None."""
    lines: dict[str, list[str]] = {}
    for row in _ROWS.values():
        for each in (row, *row.parts):
            raw = given.get(each.name)
            if raw is not None:
                lines.setdefault(each.variable or row.variable, []).extend(_show(raw))
    return {variable: "\n".join(shown) for variable, shown in lines.items() if shown}


def _show(raw: Raw) -> Iterator[str]:
    if isinstance(raw, tuple):
        yield from raw
    elif isinstance(raw, bool):
        yield str(int(raw))
    else:
        yield str(raw.absolute() if isinstance(raw, Path) else raw)
