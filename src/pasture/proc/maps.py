"""What is mapped where in a process, and which Python that tells: `/proc/PID/maps`.

Standard library alone. Source: proc_pid_maps(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NAMES = tuple(
    re.compile(pattern)
    for pattern in (
        r"/libpython3\.(\d+)",
        r"/bin/python3\.(\d+)",
        r"/python3\.(\d+)/",
        r"/python3\.(\d+)",
    )
)
"""The surest first: a process may have mapped files of other installations too."""


ZYGOTE_IMAGE = "pasture-zygote"
"""Name of the file in memory that a program out of a zygote has mapped."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """One range of an address space.

    Attributes:
        start, end: addresses, the end excluded.
        permissions: four letters, as in "rw-p".
        path: name of the file, "[heap]", "[stack]" or the like; "" if anonymous.
        offset: place of the first byte in the file, bytes.
    """

    start: int
    end: int
    permissions: str
    path: str
    offset: int = 0

    @property
    def is_file(self) -> bool:
        """Whether it maps a file (which may be deleted by now)."""
        return self.path.startswith("/")


def parse_maps(text: str) -> tuple[Mapping, ...]:
    """Parse the text of a `maps` file, in the order of addresses."""
    found = []
    for line in filter(None, text.split("\n")):  # a name may have other ends of lines in it
        words = line.split(None, 5)
        start, _, end = words[0].partition("-")
        path = words[5].rstrip() if len(words) > 5 else ""
        found.append(Mapping(int(start, 16), int(end, 16), words[1], path, int(words[2], 16)))
    return tuple(found)


def python_version(files: Iterable[str]) -> tuple[int, int] | None:
    """Major and minor version; None if no name tells."""
    names = tuple(files)
    for pattern in _NAMES:
        for name in names:
            if found := pattern.search(name):
                return 3, int(found[1])
    return None
