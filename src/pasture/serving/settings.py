"""The settings of a server process, a row each.

Reading, writing, the options of `pasture run` and the arguments of `configure()` follow from the
row.

`pasture run` and `pasture try` reach the server only through the variables, which survive its exec
and its own exec for an upgrade.
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

from pasture.errors import PastureError, UsageError, guess
from pasture.reasons import ACCEPTABLE, Reason
from pasture.serving.setting import Raw, Setting, at_need, read_all, read_switch, setting
from pasture.trust.untrusted_text import complain

if TYPE_CHECKING:
    from pasture.refork.schedule import Schedule, parse_schedule
    from pasture.sealing.policy import Policy, find_policy
    from pasture.serving.recycle import parse_limit
    from pasture.warmup.requests import Requests, parse_line, parse_lines, read_requests
else:
    parse_schedule = at_need("pasture.refork.schedule:parse_schedule")
    find_policy = at_need("pasture.sealing.policy:find_policy")
    parse_limit = at_need("pasture.serving.recycle:parse_limit")
    parse_line = at_need("pasture.warmup.requests:parse_line")
    parse_lines = at_need("pasture.warmup.requests:parse_lines")
    read_requests = at_need("pasture.warmup.requests:read_requests")

# Constants of rooms that this module does not import: a test compares them.
DEFAULT_POLICY = "seal"
POLICIES = ("stock", "freeze", "warm-freeze", "seal", "refork")
TOTAL_S = 300.0

_MAX_S = 1e6  # 11 days; more is a typing error


def parse_seconds(value: str | float) -> float:
    """A time limit as a user writes it; 0 removes it. Raises a UsageError for other text."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _MAX_S:
        raise UsageError(
            f"{value!r} is not a time limit", hint="give seconds, as in 30; 0 for none"
        )
    return seconds


def parse_modules(text: str) -> tuple[str, ...]:
    """Names of modules, separated by commas. Raises a UsageError for an impossible name."""
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(
                f"{name!r} is not a module name", hint="as in my_tasks,my_models.tables"
            )
    return names


def _parse_requests(lines: str | Iterable[str] | None, file: Raw) -> Requests:
    found = parse_lines(lines.splitlines() if isinstance(lines, str) else lines or ())
    return found if file is None else found + read_requests(Path(file))


def _parse_probe(raw: Raw) -> str:
    return "end" if raw == "end" else "on" if read_switch(raw, "PASTURE_PROBE") else "off"


def parse_accepted(text: str) -> frozenset[Reason]:
    """Kinds of hazards that the user accepts. Raises a UsageError for an unknown word."""
    words = [word for part in text.split(",") if (word := part.strip())]
    for word in words:
        if word not in ACCEPTABLE:
            raise UsageError(
                f"{word!r} is not a kind of hazard",
                hint=f"{guess(word, ACCEPTABLE)}known are {', '.join(ACCEPTABLE)}",
            )
    return frozenset().union(*(ACCEPTABLE[word] for word in words))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of a server process. `pasture run --help` lists the rows in this order."""

    policy: Policy = setting(
        "PASTURE_POLICY",
        "--policy",
        metavar="NAME",
        help=f"What is done to the heap: {', '.join(POLICIES)}.  [default: {DEFAULT_POLICY}]",
        parse=find_policy,
    )
    warm_up: Requests | None = setting(
        "PASTURE_WARM",
        "--warm",
        metavar="[METHOD] URL",
        help="Request to serve before the fork, a path or full URL, or 'Name: value' for a header "
        "of all; repeat for more.",
        repeats=True,
        parse=_parse_requests,
        check=parse_line,
        parts=(
            Setting(
                variable="PASTURE_WARM_FILE",
                option="--warm-file",
                takes=Path,
                help="File of such requests and headers, one a line.",
            ),
        ),
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
    preload: tuple[str, ...] = setting(
        "PASTURE_PRELOAD",
        "--preload",
        metavar="MODULES",
        help="Modules to import before the fork, as in my_tasks,my_models.",
        default=(),
        parse=parse_modules,
    )
    auto: Path | None = setting(
        "PASTURE_AUTO",
        "--auto",
        metavar="[=FILE]",
        takes=Path,
        help="Learn what workers import and run, in this file or one in the user's cache, and "
        "build it before the fork from the next start on.",
    )
    accepted: frozenset[Reason] = setting(
        "PASTURE_ACCEPT",
        "--accept",
        metavar="KINDS",
        help="Seal although the application's import holds such things, which workers then share "
        f"or lack: {', '.join(ACCEPTABLE)}; commas between several.",
        default=frozenset(),
        parse=parse_accepted,
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
        engines=lambda engine: engine.reforks,
        refusal=("{} cannot refork", "only gunicorn can"),
    )
    lifespan: str = setting(
        "PASTURE_LIFESPAN",
        "--lifespan",
        help="Where the ASGI lifespan runs. each: in every worker. warm-up: also in the parent "
        "during the warm-up. once: only in the parent; workers share its state.  [default: each]",
        takes=("each", "warm-up", "once"),
        default="each",
    )
    probe: str = setting(
        "PASTURE_PROBE",
        "--probe",
        help="Before workers start, fork a process like them and send it the GET and HEAD requests "
        "of --warm once more. If one fails: on: start as without pasture. end: exit.  "
        "[default: on, and end with --strict]",
        takes=("on", "off", "end"),
        default="on",
        parse=_parse_probe,
    )
    after: str = setting(
        "PASTURE_AFTER",
        "--after",
        metavar="MODULE[:NAME]",
        help="python: do not seal before this module is imported, or this name in it is set.",
        default="",
        engines=lambda engine: engine.name == "python",
        refusal=("{} does not take --after", "it preloads by itself"),
    )
    fork_spawned: bool = setting(
        "PASTURE_FORK_SPAWNED",
        "--fork-spawned",
        help="python: fork the processes that a library would spawn, from one sealed process "
        "that was spawned as they would be.",
        takes=bool,
        default=False,
        engines=lambda engine: engine.name == "python",
        refusal=("{} does not take --fork-spawned", "it forks its workers by itself"),
    )
    report_file: Path | None = setting(
        "PASTURE_REPORT_FILE", takes=Path, help="Write a copy of the seal's report here, as JSON."
    )

    @property
    def serves_before_the_fork(self) -> bool:
        """Whether the settings have requests and a policy that serves them."""
        return self.policy.warms_up and bool(self.warm_up)

    @property
    def probes(self) -> bool:
        """Whether requests are served once more, by a forked process."""
        return self.serves_before_the_fork and self.probe != "off"


_ROWS: Mapping[str, Setting] = MappingProxyType(
    {field.name: field.metadata["row"] for field in dataclasses.fields(ServerSettings)}
)

_LEFT = {name: row for name, row in _ROWS.items() if name not in ("policy", "warm_up")}

SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {each.name: each for row in _ROWS.values() for each in (row, *row.parts)}
)
"""All rows by their names, parts after their setting."""


def read_environment(environ: Mapping[str, str] = os.environ, **given: Raw) -> ServerSettings:
    """Settings from the variables; where one is unset, from the arguments.

    The variables win, so that a trial can try other policies on an application whose own
    configuration names one. An empty variable counts as unset; an empty argument is an error.

    Args:
        given: raw values by the names of `SETTINGS`; None is unset.

    Raises:
        UnknownPolicy: a policy of that name does not exist. UsageError: a file cannot be read, or a
        value is wrong.
    """
    given = {name: raw for name, raw in given.items() if raw is not None}
    if environ.get(SETTINGS["refork"].variable) or "refork" in given:
        given.setdefault("policy", "refork")
    policy = find_policy(_ROWS["policy"].read(environ, given))
    if policy.refork:
        given.setdefault("refork", ",".join(map(str, policy.refork)))
    warm_up = _ROWS["warm_up"].read(environ, {})
    # A trial's requests are not mixed with those of a configuration.
    if not warm_up and (configured := _ROWS["warm_up"].read({}, given)):
        warm_up = configured if warm_up is None else warm_up + configured
    return ServerSettings(policy=policy, warm_up=warm_up, **read_all(_LEFT, environ, given))


def check_given(**given: Raw) -> None:
    """Read only the given values; raises as `read_environment`."""
    for row in _ROWS.values():
        if any(each.name in given for each in (row, *row.parts)):
            row.read({}, given)


def settings_or_end(**given: Raw) -> ServerSettings:
    """`read_environment` in a hook, where an error would be a traceback: it ends the process."""
    try:
        return read_environment(**given)
    except PastureError as error:
        sys.exit(complain(error))


def to_environment(**given: Raw) -> dict[str, str]:
    """The variables for raw values by names of `SETTINGS`; None is left out."""
    lines: dict[str, list[str]] = {}
    for row in _ROWS.values():
        for each in (row, *row.parts):
            raw = given.get(each.name)
            if raw is not None:
                lines.setdefault(each.variable, []).extend(_show(raw))
    return {variable: "\n".join(shown) for variable, shown in lines.items() if shown}


def _show(raw: Raw) -> Iterator[str]:
    if isinstance(raw, tuple):
        yield from raw
    elif isinstance(raw, bool):
        yield str(int(raw))
    else:
        yield str(raw.absolute() if isinstance(raw, Path) else raw)
