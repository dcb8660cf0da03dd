"""Which Python a process runs, told from the names of the files that it has mapped."""

from __future__ import annotations

import re
from collections.abc import Iterable

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


def python_version(files: Iterable[str]) -> tuple[int, int] | None:
    """Major and minor version; None if no name tells."""
    names = tuple(files)
    for pattern in _NAMES:
        for name in names:
            if found := pattern.search(name):
                return 3, int(found[1])
    return None
