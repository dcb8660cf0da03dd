"""How many workers a container holds, from its own limits and from figures of a trial.

Owns the model: at each moment a server with n workers takes `parent + n * private` bytes. Both
vary: before a refork, or at their end, workers may have many times their usual private memory.
Standard library alone: configuration files call it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasture.errors import UsageError
from pasture.proc import cgroup
from pasture.trust.foreign_files import read_foreign

CGROUP = "cgroup"
PER_CORE = 2.0
SPARE = 0.1

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3}
_MAX_BYTES = 64 << 20
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Moment:
    """The memory of a server at one moment."""

    private_bytes: float  # private memory of the median worker
    parent_bytes: float  # the rest: the parent, molds, and shared memory, counted once


@dataclass(frozen=True, slots=True)
class Sizing:
    """A number of workers, and the reason for it.

    Attributes:
        workers: the smaller of the next two, at least 1.
        by_memory: how many fit into the memory; None without the figures of a worker.
        by_processors: how many suit the processors.
        limit_bytes: of memory; 0 if not needed.
        limited_by: the owner of that limit, in words.
        cores: processors.
    """

    workers: int
    by_memory: int | None
    by_processors: int
    limit_bytes: int
    limited_by: str
    cores: float

    def __str__(self) -> str:
        """The number and its reasons, in one line."""
        words = f"{self.by_processors} for {self.cores:g} processor{'s' * (self.cores != 1)}"
        if self.by_memory is not None:
            memory = f"{self.limit_bytes / 1e6:,.0f} MB ({self.limited_by})"
            words = f"{self.by_memory} fit into {memory}, {words}"
        return f"{self.workers} worker{'s' * (self.workers != 1)}: {words}"


def workers(
    *,
    private: int | str | None = None,
    parent: int | str = 0,
    peak: float = 1.0,
    trial: str | Path | None = None,
    policy: str = "seal",
    limit: int | str = CGROUP,
    cores: float | str = CGROUP,
    per_core: float = PER_CORE,
    spare: float = SPARE,
) -> int:
    """The number of workers to start, by the limits of the container, not of its host.

    For `gunicorn.conf.py`: `workers = pasture.workers(trial="try.json")`.

    Args:
        private: memory of a worker that it shares with no other process, as in "40M" or bytes.
        parent: memory of the parent with all that workers share.
        peak: how many times `private` a worker takes at its worst moment, as before a refork.
        trial: document of `pasture try --json`, with the figures of each moment.
        policy: the policy of these figures.
        limit: of memory; "cgroup" is that of the narrowest control group, or the machine's memory.
        cores: number of processors; "cgroup" is the quota of the narrowest control group, or the
            processors of this process.
        per_core: workers for each processor.
        spare: fraction of the limit that is left free.

    Returns:
        At least 1. Without figures of a worker the processors alone decide.

    Raises:
        UsageError: a figure cannot be understood, or the trial has none of that policy.
    """
    figures: dict[str, Any] = locals()
    return size(**figures).workers


def size(
    *,
    private: int | str | None,
    parent: int | str,
    peak: float,
    trial: str | Path | None,
    policy: str,
    limit: int | str,
    cores: float | str,
    per_core: float,
    spare: float,
    pid: int | None = None,
) -> Sizing:
    """`workers` with the reason. All arguments are those of `workers`.

    Args:
        pid: of the process whose control group counts; None is this one.
    """
    if per_core <= 0 or not 0 <= spare < 1 or peak < 1:
        raise UsageError(
            f"{per_core:g} workers a processor, {spare:g} spare, a peak of {peak:g}",
            hint="per_core is above 0, spare from 0 to below 1, peak at least 1",
        )
    processors = _processors() if cores == CGROUP else _number(cores)
    by_processors = max(1, math.floor(processors * per_core + 1e-9))
    if private is None and trial is None:
        return Sizing(by_processors, None, by_processors, 0, "", processors)
    limit_bytes, limited_by = (
        _memory(pid) if limit == CGROUP else (parse_bytes(limit), f"--limit {limit}")
    )
    if trial is not None:
        moments = _moments_of(Path(trial), policy)
    else:
        moments = (Moment(parse_bytes(private or 0) * peak, parse_bytes(parent)),)
    if not any(moment.private_bytes > 0 for moment in moments):
        raise UsageError("a worker has no private memory", hint="as in 40M")
    by_memory = workers_in(limit_bytes * (1 - spare), moments)
    chosen = max(1, min(by_memory, by_processors))
    return Sizing(chosen, by_memory, by_processors, limit_bytes, limited_by, processors)


def workers_in(budget_bytes: float, moments: Iterable[Moment]) -> int:
    """The number of workers that fit into a budget, with their parent, at each of these moments.

    Moments without private memory do not count. Rounding errors do not exceed a budget that is met
    exactly.
    """
    fit = [
        math.floor((budget_bytes - moment.parent_bytes) / moment.private_bytes + 1e-9)
        for moment in moments
        if moment.private_bytes > 0
    ]
    return max(0, min(fit, default=0))


def worst(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """The moments that decide for some limit: no other one has as much of both."""
    found: list[Moment] = []
    for moment in sorted(moments, key=lambda m: (-m.private_bytes, -m.parent_bytes)):
        if not found or moment.parent_bytes > found[-1].parent_bytes:
            found.append(moment)
    return tuple(found)


def parse_bytes(text: int | str) -> int:
    """A size as a user writes it: bytes, `200M` or `200MB`, which are 200,000,000, or `1.5GiB`.

    Raises:
        UsageError: it cannot be understood.
    """
    number, unit = str(text).strip().upper().removesuffix("B"), ""
    base = 1024 if number.endswith("I") else 1000
    number = number.removesuffix("I")
    if number and number[-1] in _POWERS:
        number, unit = number[:-1], number[-1]
    try:
        size_bytes = int(float(number) * base ** _POWERS[unit])
    except (ValueError, OverflowError):
        size_bytes = -1
    if size_bytes < 0:
        raise UsageError(f"{text!r} is not a size of memory", hint="as in 200M, 1.5GiB")
    return size_bytes


def _number(text: float | str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise UsageError(f"{text!r} is not a number of processors", hint="as in 2, 0.5 or cgroup")
    return number


def _processors() -> float:
    mine = float(len(os.sched_getaffinity(0)))
    quota = cgroup.read_processors()
    return mine if quota is None else min(mine, quota)


def _memory(pid: int | None) -> tuple[int, str]:
    usage = cgroup.read_usage(pid)
    machine = int(_MEMINFO.read_text().split(maxsplit=2)[1]) << 10
    if usage is None or usage.limit_bytes >= machine:
        return machine, "of this machine"
    return usage.limit_bytes, "of its control group"


def read_trial(path: Path) -> dict[str, Any]:
    """A document of `pasture try --json`. UsageError if it cannot be read or is something else."""
    content = read_foreign(path.resolve(), most_bytes=_MAX_BYTES, owners=None)
    try:
        document: dict[str, Any] = json.loads(content)
        if all(document["policies"].values()):
            return document
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    raise _no_trial(path)


def _no_trial(path: Path) -> UsageError:
    return UsageError(
        f"{path} is not the JSON of a trial", hint="pasture try --json FILE writes one"
    )


def _moments_of(trial: Path, policy: str) -> tuple[Moment, ...]:
    policies = read_trial(trial)["policies"]
    if policy not in policies:
        raise UsageError(
            f"{trial} has no figures of {policy}", hint=f"it has {', '.join(policies)}"
        )
    try:
        moments = policies[policy]["worst_moments"]
        return tuple(Moment(int(m["private_bytes"]), int(m["parent_bytes"])) for m in moments)
    except (ValueError, KeyError, TypeError):
        raise _no_trial(trial) from None
