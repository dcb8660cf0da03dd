"""A group of processes with a limit on their memory, below the group that we are in.

Whatever limit holds for us so holds for it, too. Made with the rights that we have; where
they do not suffice, that is the answer. Both versions of cgroups.

Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pasture.errors import NotMeasurable

_MOUNTS = Path("/proc/self/mounts")
_OWN = Path("/proc/self/cgroup")
_EMPTY_S = 10.0


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A group; `version` is 1 or 2."""

    path: Path
    version: int

    @property
    def prefix(self) -> tuple[str, ...]:
        """A command that starts the command that follows it inside of the group."""
        enter = f'echo $$ > {self.path}/cgroup.procs && exec "$@"'
        return ("/bin/sh", "-c", enter, "sh")

    def limit(self, size_bytes: int) -> None:
        """Set the limit on memory alone: what is beyond is paged out where there is swap."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        (self.path / name).write_text(f"{size_bytes}\n")

    def peak_bytes(self) -> int:
        """The most that was charged so far, page cache included."""
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        return int((self.path / name).read_text())

    def kills(self) -> int:
        """How many processes the kernel killed because of the limit."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        for line in (self.path / name).read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0


@contextmanager
def memory_group() -> Iterator[MemoryGroup]:
    """Make a group and remove it at the end, when its processes have ended.

    Raises:
        NotMeasurable: this machine or user cannot make one.
    """
    version, parent = _own_group()
    path = parent / f"pasture-lab-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        path.mkdir()
    except OSError as error:
        raise NotMeasurable(
            f"no cgroup can be made: {error.strerror}",
            hint="run as root, or in a unit with Delegate=yes",
        ) from None
    try:
        group = MemoryGroup(path, version)
        needed = "memory.max" if version == 2 else "memory.limit_in_bytes"
        if not (path / needed).exists():
            raise NotMeasurable(
                "cgroups have no memory controller here",
                hint="run in a unit with Delegate=memory, as of systemd-run",
            )
        yield group
    finally:
        _remove(path)


def _own_group() -> tuple[int, Path]:
    """Version and folder of the group that we are in, of the memory controller."""
    own = dict(_own_paths())
    mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
    for _, where, kind, options, *_ in mounts:
        if kind == "cgroup" and "memory" in options.split(",") and "memory" in own:
            return 1, Path(where) / own["memory"].lstrip("/")
    for _, where, kind, *_ in mounts:
        if kind == "cgroup2" and "" in own:
            return 2, Path(where) / own[""].lstrip("/")
    raise NotMeasurable("this machine has no cgroups", hint="mount cgroup2 at /sys/fs/cgroup")


def _own_paths() -> Iterator[tuple[str, str]]:
    """Controller ("" for version 2) and path of each of our groups."""
    for line in _OWN.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _remove(path: Path) -> None:
    """A group can be removed once the last process has gone."""
    deadline = time.monotonic() + _EMPTY_S
    while path.exists():
        try:
            path.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
