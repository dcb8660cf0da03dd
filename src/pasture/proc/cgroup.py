"""Limits of the control groups of a process: memory, its use, and processors.

Reads both versions of the kernel's interface and all groups from the process's own up to the
root that it sees: the narrowest counts.

Source: cgroups(7); Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_PROC = Path("/proc")
_UNLIMITED_BYTES = 1 << 60
"""Version 1 writes "no limit" as a number near 2**63."""


class Headroom(NamedTuple):
    """Memory that a control group leaves."""

    bytes: int  # until the limit, clean file pages counted as free; never negative
    group: Path  # the folder of the group whose limit is the narrowest


class Usage(NamedTuple):
    """A control group that has a limit."""

    limit_bytes: int  # memory that its processes may use together
    used_bytes: int  # used by them and by the kernel for them, pages of files included
    idle_file_bytes: int  # pages of files that are idle, part of the former
    active_file_bytes: int  # other pages of files, also part of it
    group: Path  # its folder
    # Processes of the process's own group, or of all in it, that the kernel has ended for memory.
    oom_kills: int = 0

    @property
    def working_set_bytes(self) -> int:
        """Use without idle pages of files, as container runtimes count it."""
        return max(0, self.used_bytes - self.idle_file_bytes)

    @property
    def headroom_bytes(self) -> int:
        """Memory until the limit, clean file pages counted as free."""
        files = min(self.idle_file_bytes + self.active_file_bytes, self.used_bytes)
        return max(0, self.limit_bytes - self.used_bytes + files)


class _Version(NamedTuple):
    limit: str
    usage: str
    idle_file: str
    active_file: str
    events: str


_V1 = _Version(
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
    "total_active_file",
    "memory.oom_control",
)
_V2 = _Version("memory.max", "memory.current", "inactive_file", "active_file", "memory.events")


def read_headroom(proc: Path = _PROC) -> Headroom | None:
    """Headroom in the narrowest control group of this process; None without a limit."""
    usage = read_usage(proc=proc)
    return None if usage is None else Headroom(usage.headroom_bytes, usage.group)


def read_usage(pid: int | None = None, proc: Path = _PROC) -> Usage | None:
    """The control group of a process (or this one) with the least headroom, if one has a limit."""
    try:
        found = [use for folder, version in groups(proc, pid) if (use := _usage(folder, version))]
    except (OSError, ValueError, IndexError):  # /proc is missing, or not the kernel's
        return None
    least = min(found, key=lambda use: use.headroom_bytes, default=None)
    return None if least is None else least._replace(oom_kills=read_oom_kills(pid, proc))


def read_oom_kills(pid: int | None = None, proc: Path = _PROC) -> int:
    """Processes of the group of a process (or of this one) that the kernel has ended for memory.

    Since the group began; 0 where the count is missing. Groups above count other groups' processes,
    too.
    """
    with suppress(OSError, ValueError, IndexError):
        for folder, version in groups(proc, pid):
            with suppress(OSError, ValueError, KeyError):
                fields = dict(map(str.split, (folder / version.events).read_text().splitlines()))
                return int(fields["oom_kill"])
    return 0


def _usage(folder: Path, version: _Version) -> Usage | None:
    try:
        limit = int((folder / version.limit).read_text())
        usage = int((folder / version.usage).read_text())
        stat = (folder / "memory.stat").read_text()
    except (OSError, ValueError):  # "max", a missing controller, or not readable
        return None
    if limit >= _UNLIMITED_BYTES:
        return None
    fields = dict(line.split(maxsplit=1) for line in stat.splitlines() if " " in line)
    idle, active = (int(fields.get(n, 0)) for n in (version.idle_file, version.active_file))
    return Usage(limit, usage, idle, active, folder)


def read_processors(proc: Path = _PROC) -> float | None:
    """Processors that the narrowest control group of this process grants; None without a limit."""
    try:
        quotas = [_quota(folder, version) for folder, version in groups(proc, controller="cpu")]
    except (OSError, ValueError, IndexError):
        return None
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota(folder: Path, version: _Version) -> float | None:
    try:
        if version is _V2:
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            quota, period = ((folder / name).read_text() for name in names)
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # "max", or a missing controller
        return None


def groups(
    proc: Path, pid: int | None = None, *, controller: str = "memory"
) -> Iterator[tuple[Path, _Version]]:
    """The folders of a process's (or this one's) groups that may limit it, with interface."""
    mine = os.fsdecode((proc / ("self" if pid is None else str(pid)) / "cgroup").read_bytes())
    mounts = os.fsdecode((proc / "self" / "mountinfo").read_bytes())
    paths = {}
    for line in filter(None, mine.split("\n")):  # names may contain other line ends
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            paths[_V1 if controllers else _V2] = path
    for root, point, version in _mounts(mounts, controller):
        if version in paths:
            for folder in _upwards(point, root, paths[version]):
                yield folder, version


def _mounts(text: str, controller: str) -> Iterator[tuple[str, Path, _Version]]:
    """The group, folder and interface of each mount of the hierarchies."""
    for line in filter(None, text.split("\n")):
        mount, _, system = line.partition(" - ")
        kind, _, options = system.split(" ", 2)
        fields = mount.split(" ")
        if kind == "cgroup2":
            yield fields[3], Path(fields[4]), _V2
        elif kind == "cgroup" and controller in options.split(","):
            yield fields[3], Path(fields[4]), _V1


def _upwards(point: Path, root: str, path: str) -> Iterator[Path]:
    """The folders from the group at `path` up to the mount point, which shows the group `root`."""
    try:
        inside = PurePosixPath(path).relative_to(root)
    except ValueError:  # moved, or seen from another namespace
        inside = PurePosixPath(".")
    if ".." not in inside.parts:
        yield from (point / part for part in (inside, *inside.parents))
