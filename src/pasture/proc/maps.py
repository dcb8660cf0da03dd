"""Mappings of a process, and the version of Python in their names: `/proc/PID/maps` and `smaps`.

Standard library alone. Sources: proc_pid_maps(5), proc_pid_smaps(5). The kernel escapes only the
line feed in the name of a file, not other line ends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

_NAMES = (r"/libpython3\.(\d+)", r"/bin/python3\.(\d+)", r"/python3\.(\d+)/", r"/python3\.(\d+)")
"""Names with a version, the surest first: a process may have mapped other installations, too."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """One range of an address space."""

    # start, end: addresses, the end excluded.
    start: int
    end: int
    permissions: str  # four letters, as in "rw-p"
    path: str  # name of the file, "[heap]", "[stack]" or the like; "" if anonymous
    offset: int = 0  # place of the first byte in the file, bytes
    inode: int = 0  # inode of the file; 0 without one
    flags: frozenset[str] = frozenset()  # `VmFlags` of `smaps`, two letters each; none in `maps`

    @property
    def length(self) -> int:
        """Length in bytes."""
        return self.end - self.start

    @property
    def is_file(self) -> bool:
        """Whether it maps a file (which may be deleted by now)."""
        return self.path.startswith("/")


def read_maps(pid: int, proc: Path = Path("/proc")) -> tuple[Mapping, ...]:
    """Mappings in the order of addresses. OSError: the process has ended, or is another user's."""
    return parse_maps(os.fsdecode((proc / str(pid) / "maps").read_bytes()))


def read_smaps(pid: int, proc: Path = Path("/proc")) -> Iterator[tuple[Mapping, dict[str, int]]]:
    """As `read_maps`, each with its figures in bytes: see `parse_smaps`."""
    return parse_smaps(os.fsdecode((proc / str(pid) / "smaps").read_bytes()))


def parse_maps(text: str) -> tuple[Mapping, ...]:
    """Parse the text of a `maps` file, in the order of addresses."""
    return tuple(map(_mapping, filter(None, text.split("\n"))))


def parse_smaps(text: str) -> Iterator[tuple[Mapping, dict[str, int]]]:
    """Each mapping of a `smaps` file with its figures, such as `Rss`, in bytes."""
    found: Mapping | None = None
    figures: dict[str, int] = {}
    for line in filter(None, text.split("\n")):
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            if found is not None:
                yield found, figures
            found, figures = _mapping(line), {}
        elif name == "VmFlags:" and found is not None:
            found = replace(found, flags=frozenset(rest.split()))
        elif rest.endswith(" kB"):
            figures[name[:-1]] = int(rest[:-3]) * 1024
    if found is not None:
        yield found, figures


def _mapping(line: str) -> Mapping:
    """A line of `maps`, which is also the first line of a mapping in `smaps`."""
    addresses, permissions, offset, _, inode, *path = line.split(None, 5)
    start, _, end = addresses.partition("-")
    return Mapping(
        *(int(start, 16), int(end, 16), permissions, "".join(path)), *(int(offset, 16), int(inode))
    )


def python_version(files: Iterable[str]) -> tuple[int, int] | None:
    """Major and minor version of Python, or None."""
    names = tuple(files)
    for pattern in _NAMES:
        for name in names:
            if found := re.search(pattern, name):
                return 3, int(found[1])
    return None
