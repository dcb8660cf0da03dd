"""Variables that code in C may have asked the kernel for: it has /proc/self/environ, and no getenv.

Intel's MKL does, inside of torch. Which names it compares is not seen. They are strings of a
library that has the name of that file, too; a variable by another name has no effect there.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable

_FILE = b"/environ\0"
_NAME = re.compile(rb"(?<=\0)[A-Z_][A-Z0-9_]{1,63}(?=\0)")
"""In capitals, as all that code in C is known to ask the kernel for."""


def names_in(libraries: Iterable[str]) -> frozenset[str]:
    """Whole strings that may name a variable, of the libraries that can ask; empty if none can."""
    found: set[bytes] = set()
    for path in libraries:
        with open(path, "rb") as file:  # noqa: PTH123 - as elsewhere here
            if not os.fstat(file.fileno()).st_size:
                continue
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as text:
                if text.find(_FILE) >= 0:
                    found.update(match.group() for match in _NAME.finditer(text))
    return frozenset(name.decode() for name in found)
