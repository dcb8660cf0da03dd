"""What limits a process and not another one: hard limits, and control groups.

Invariant: what cannot be compared is a difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pasture.proc.cgroup import parse_paths

_GROUPS = Path("/sys/fs/cgroup")
_FREE = {
    **{"memory.max": "max", "memory.high": "max", "memory.swap.max": "max", "pids.max": "max"},
    **{"cpu.max": "max", "cpuset.cpus": "", "cpuset.mems": "", "io.max": "", "cpu.idle": "0"},
}
"""Files of a group (version 2), and how one begins that limits nothing."""

_V1_WITHOUT_LIMITS = frozenset(("cpuacct", "perf_event", "net_cls", "net_prio", "freezer"))
_V1_FREE = {
    "pids": {"pids.max": "max"},
    "cpu": {"cpu.cfs_quota_us": "-1"},
    "memory": {"memory.limit_in_bytes": "9223372036854771712"},
}
"""The same of version 1, by controller. Of any other controller groups have to be the same."""


def limit_differs(own: str, other: str) -> str | None:
    """The first hard limit of another process that is lower than this one's.

    Args:
        own: text of `/proc/PID/limits` of this process.
        other: of the other.
    """
    mine, others = dict(_hard_limits(own)), dict(_hard_limits(other))
    for name in mine:
        if name not in others or _number(others[name]) < _number(mine[name]):
            return f"a lower hard limit: {name}"
    return None


def _hard_limits(text: str) -> Iterator[tuple[str, str]]:
    lines = text.splitlines()
    if not lines:
        return
    at = {title: lines[0].index(title) for title in ("Limit", "Soft Limit", "Hard Limit")}
    for line in lines[1:]:
        yield line[: at["Soft Limit"]].strip().lower(), line[at["Hard Limit"] :].split()[0]


def _number(text: str) -> float:
    return float("inf") if text == "unlimited" else float(text)


def cgroup_differs(own: str, other: str, mounted: Path = _GROUPS) -> str | None:
    """Which control group limits another process and not this one.

    A group without limits of its own below a common one is no difference: each login has one.

    Args:
        own: text of `/proc/PID/cgroup` of this process.
        other: of the other.
        mounted: where groups of version 2 are.
    """
    if own == other:
        return None
    mine = dict(parse_paths(own))
    for controllers, path in parse_paths(other):
        if mine.get(controllers) == path or controllers.startswith("name="):
            continue
        limit = _first_limit(controllers, mine.get(controllers, "/"), path, mounted)
        if limit is not None:
            return f"another control group: {limit}"
    return None


def _first_limit(controllers: str, own: str, other: str, mounted: Path) -> str | None:
    """The first limit on the way from a group that both are in down to the other's."""
    names = frozenset(controllers.split(",")) - _V1_WITHOUT_LIMITS
    if not names <= {"", *_V1_FREE}:
        return f"{controllers}:{other}"
    free = {file: text for name in names for file, text in _V1_FREE.get(name, _FREE).items()}
    at, common = other, os.path.commonpath((own, other))
    while free and at != common:
        limit = _limit_of(mounted / controllers / at.lstrip("/"), free)
        if limit is not None:
            return f"{limit} of {at}"
        at = os.path.split(at)[0]
    return None


def _limit_of(folder: Path, free: Mapping[str, str]) -> str | None:
    if not (folder / "cgroup.procs").exists():
        return "unknown limits"
    for name, text in free.items():
        try:
            value = (folder / name).read_text().strip()
        except FileNotFoundError:
            continue  # no controller of that name there
        except OSError:
            return "unknown limits"
        if value.split(" ")[0] != text:
            return name
    return None
