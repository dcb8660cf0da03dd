"""How much memory the control groups of this process still allow it.

Reads both versions of the kernel's interface and all groups from the process's own up to the
root that it sees: the narrowest counts. Standard library alone, since servers read it too.

Source: cgroups(7); Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_PROC = Path("/proc")
_UNLIMITED_BYTES = 1 << 60
"""Version 1 writes "no limit" as a number near 2**63."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a control group leaves.

    Attributes:
        bytes: until the limit, clean file pages counted as free; never negative.
        group: the folder of the group whose limit is the narrowest.
    """

    bytes: int
    group: Path


@dataclass(frozen=True, slots=True)
class _Version:
    limit: str
    usage: str
    files: tuple[str, ...]


_V1 = _Version(
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
)
_V2 = _Version("memory.max", "memory.current", ("inactive_file", "active_file"))


def read_room(proc: Path = _PROC) -> Room | None:
    """What the narrowest control group of this process leaves; None where none has a limit.

    Args:
        proc: where proc(5) is mounted.
    """
    try:
        rooms = [room for folder, version in groups(proc) if (room := _room(folder, version))]
    except (OSError, ValueError, IndexError):  # no /proc, or one that is not the kernel's
        return None
    return min(rooms, key=lambda room: room.bytes, default=None)


def _room(folder: Path, version: _Version) -> Room | None:
    try:
        limit = int((folder / version.limit).read_text())
        usage = int((folder / version.usage).read_text())
        stat = (folder / "memory.stat").read_text()
    except (OSError, ValueError):  # "max", no such controller, or not ours to read
        return None
    if limit >= _UNLIMITED_BYTES:
        return None
    fields = dict(line.split(maxsplit=1) for line in stat.splitlines() if " " in line)
    reclaimable = sum(int(fields.get(name, 0)) for name in version.files)
    return Room(max(0, limit - usage + min(reclaimable, usage)), folder)


def groups(proc: Path) -> Iterator[tuple[Path, _Version]]:
    """The folders of this process's groups that may limit memory, and their interface."""
    mine = (proc / "self" / "cgroup").read_text()
    mounts = (proc / "self" / "mountinfo").read_text()
    paths = {}
    for line in mine.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            paths[_V1 if controllers else _V2] = path
    for root, point, version in _mounts(mounts):
        if version in paths:
            for folder in _upwards(point, root, paths[version]):
                yield folder, version


def _mounts(text: str) -> Iterator[tuple[str, Path, _Version]]:
    """Of each mount of the hierarchies: the group that it shows, where, and its interface."""
    for line in text.splitlines():
        mount, _, system = line.partition(" - ")
        kind, _, options = system.split(" ", 2)
        fields = mount.split(" ")
        if kind == "cgroup2":
            yield fields[3], Path(fields[4]), _V2
        elif kind == "cgroup" and "memory" in options.split(","):
            yield fields[3], Path(fields[4]), _V1


def _upwards(point: Path, root: str, path: str) -> Iterator[Path]:
    """The folders from the group at `path` up to the mount point, which shows the group `root`."""
    try:
        inside = PurePosixPath(path).relative_to(root)
    except ValueError:  # moved, or seen from another namespace
        inside = PurePosixPath(".")
    if ".." not in inside.parts:
        yield from (point / part for part in (inside, *inside.parents))
